// The functions of libm that a newer glibc has in a second version, which sets
// no error handler of System V any more: the first versions, which every glibc
// has, return the same numbers. Beside older_runtime.cc, which says why.

#include <features.h>

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

#if defined(__x86_64__)
#define XLA_FFI_KIT_FIRST_GLIBC "GLIBC_2.2.5"
#else
#define XLA_FFI_KIT_FIRST_GLIBC "GLIBC_2.17"
#endif

// Hidden, as the linker would export what libm.so defines too.
#define XLA_FFI_KIT_OLDER(type, name, parameters, arguments)                   \
  asm(".symver Older_" #name "," #name "@" XLA_FFI_KIT_FIRST_GLIBC);           \
  type Older_##name parameters;                                                \
  __attribute__((visibility("hidden"))) type Own_##name parameters asm(#name); \
  type Own_##name parameters { return Older_##name arguments; }

#define XLA_FFI_KIT_OLDER_1(name)                  \
  XLA_FFI_KIT_OLDER(double, name, (double x), (x)) \
  XLA_FFI_KIT_OLDER(float, name##f, (float x), (x))
#define XLA_FFI_KIT_OLDER_2(name)                               \
  XLA_FFI_KIT_OLDER(double, name, (double x, double y), (x, y)) \
  XLA_FFI_KIT_OLDER(float, name##f, (float x, float y), (x, y))

extern "C" {

// GLIBC_2.29, and GLIBC_2.27 in float.
XLA_FFI_KIT_OLDER_1(exp)
XLA_FFI_KIT_OLDER_1(exp2)
XLA_FFI_KIT_OLDER_1(log)
XLA_FFI_KIT_OLDER_1(log2)
XLA_FFI_KIT_OLDER_2(pow)
// GLIBC_2.35
XLA_FFI_KIT_OLDER_2(hypot)

}  // extern "C"

#endif
