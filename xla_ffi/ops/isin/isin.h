// Which elements are among others, on the CPU.

#ifndef XLA_FFI_OPS_ISIN_ISIN_H_
#define XLA_FFI_OPS_ISIN_ISIN_H_

#include <cstdint>

#include "xla_ffi/ops/sort/pack.h"
#include "xla_ffi/ops/sort/workers.h"

namespace xla_ffi_kit {

struct IsinProblem {
  int64_t rows;
  int64_t elements;  // a row
  int64_t tests;     // a row
  KeyKind kind;
  int64_t width;  // bytes an element: 1, 2, 4 or 8
  bool subnormals_are_zero;
  const void* element;  // rows * elements
  const void* test;     // rows * tests
  bool* out;            // rows * elements
};

// Whether each element equals one of its row's tests. -0.0 equals 0.0, as do
// subnormals where `subnormals_are_zero` (but for f16); NaN equals nothing.
//
// A hash table of the tests, of 2 to 4 times their size, whose searches are
// bounded; tests that do not fit into one so are sorted instead and searched
// by bisection. False if there is no memory for either; then the result is
// undefined.
[[nodiscard]] bool Isin(const IsinProblem& problem, const Workers& workers);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_ISIN_ISIN_H_
