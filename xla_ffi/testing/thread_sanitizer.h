// Whether a test runs under ThreadSanitizer (--config=tsan), which makes it ten
// to fifty times slower. It watches threads: a test whose many cases differ in
// their values alone runs a few of them there.

#ifndef XLA_FFI_TESTING_THREAD_SANITIZER_H_
#define XLA_FFI_TESTING_THREAD_SANITIZER_H_

namespace xla_ffi_kit::testing {

#ifdef __SANITIZE_THREAD__
inline constexpr bool kIsThreadSanitizer = true;
#else
inline constexpr bool kIsThreadSanitizer = false;
#endif

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_THREAD_SANITIZER_H_
