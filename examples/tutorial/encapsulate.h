// A handler as what Python's modules of C++ hand to jax.ffi: a capsule's
// pointer. Of anything else the compiler says what is wrong.

#ifndef EXAMPLES_TUTORIAL_ENCAPSULATE_H_
#define EXAMPLES_TUTORIAL_ENCAPSULATE_H_

#include <type_traits>

#include "xla/ffi/api/c_api.h"

template <typename Function>
void* Encapsulate(Function* function) {
  static_assert(
      std::is_invocable_r_v<XLA_FFI_Error*, Function, XLA_FFI_CallFrame*>,
      "a handler is XLA_FFI_Error*(XLA_FFI_CallFrame*): give the name that "
      "XLA_FFI_DEFINE_HANDLER_SYMBOL defines, not the function it binds");
  return reinterpret_cast<void*>(function);
}

#endif  // EXAMPLES_TUTORIAL_ENCAPSULATE_H_
