// Tuples: the handler sees their leaves, one after the other.
//
// examples.tuple_sums: operands (a f32[k], (b f32[l], c f32[m])), flattened to
// a, b, c; results (sums f32[3], scratch f32[n]). The second result is never
// read: it is memory to work in, which is how a handler on the CPU gets any
// from XLA. JAX passes flat operands; XlaBuilder and HLO can pass tuples.

#include <algorithm>
#include <cstddef>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

using Vector = ffi::BufferR1<ffi::F32>;

// Adds the elements in pairs, then the pairs, and so on, which is more exact
// than one after the other, and needs memory for half of them.
float PairwiseSum(Vector x, float* scratch) {
  size_t n = x.element_count();
  if (n == 0) return 0;
  const float* from = x.typed_data();
  while (n > 1) {
    for (size_t i = 0; i < n / 2; ++i)
      scratch[i] = from[2 * i] + from[2 * i + 1];
    if (n % 2 == 1) scratch[n / 2] = from[n - 1];
    n = (n + 1) / 2;
    from = scratch;
  }
  return from[0];
}

ffi::Error TupleSums(Vector a, Vector b, Vector c, ffi::Result<Vector> sums,
                     ffi::Result<Vector> scratch) {
  const size_t longest =
      std::max({a.element_count(), b.element_count(), c.element_count()});
  if (sums->element_count() != 3 ||
      scratch->element_count() < (longest + 1) / 2) {
    return ffi::Error::InvalidArgument(
        "examples.tuple_sums: expected results of 3 and of at least half the "
        "longest operand's elements");
  }
  float* out = sums->typed_data();
  for (Vector x : {a, b, c}) *out++ = PairwiseSum(x, scratch->typed_data());
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleTupleSums, TupleSums,
                              ffi::Ffi::Bind()
                                  .Arg<Vector>()    // a
                                  .Arg<Vector>()    // b
                                  .Arg<Vector>()    // c
                                  .Ret<Vector>()    // sums
                                  .Ret<Vector>());  // scratch
