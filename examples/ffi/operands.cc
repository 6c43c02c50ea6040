// Operands and results: of any type or of one, missing, many, ordered.

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi_examples {

namespace ffi = ::xla::ffi;

// --- AnyBuffer: one handler for every dtype and rank
// examples.real_part: (x T[...]) -> the real part of each element, in the
// dtype that ToReal() names. Real dtypes are copied, those of 4 and 8 bits too:
// for these the bytes are all that is needed.

namespace {

template <ffi::DataType dtype>
void RealPart(ffi::AnyBuffer x, ffi::AnyBuffer y) {
  using Complex = ffi::NativeType<dtype>;
  using Real = ffi::NativeType<ffi::ToReal(dtype)>;
  static_assert(ffi::IsComplexType<dtype>());
  const Complex* in = x.typed_data<Complex>();
  Real* out = y.typed_data<Real>();
  for (size_t i = 0; i < x.element_count(); ++i) out[i] = in[i].real();
}

ffi::Error RealPartOfAny(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  const ffi::DataType dtype = x.element_type();
  if (!(x.dimensions() == y->dimensions()) ||
      y->element_type() != ffi::ToReal(dtype)) {
    return ffi::Error::InvalidArgument(
        "examples.real_part: result y: expected x's shape and real dtype");
  }
  switch (dtype) {
    case ffi::C64:
      RealPart<ffi::C64>(x, *y);
      break;
    case ffi::C128:
      RealPart<ffi::C128>(x, *y);
      break;
    default:
      if (x.size_bytes() == 0) break;  // memcpy wants pointers even for nothing
      std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleRealPart, RealPartOfAny,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()    // x
                                  .Ret<ffi::AnyBuffer>());  // y

// --- Buffers whose dtype and rank the FFI checks before the handler is called
// examples.matvec: (alpha f32[], a f32[m,n], x f32[n]) -> y f32[m],
// y = alpha a x. The lengths of the axes are the handler's own to check.

namespace {

ffi::Error MatVec(ffi::BufferR0<ffi::F32> alpha, ffi::BufferR2<ffi::F32> a,
                  ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y) {
  const int64_t m = a.dimensions().front(), n = a.dimensions().back();
  if (x.dimensions()[0] != n || y->dimensions()[0] != m) {
    return ffi::Error::InvalidArgument(
        "examples.matvec: expected " + std::to_string(n) +
        " elements in operand x and " + std::to_string(m) +
        " in the result, got " + std::to_string(x.element_count()) + " and " +
        std::to_string(y->element_count()));
  }
  for (int64_t i = 0; i < m; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      sum += a.typed_data()[i * n + j] * x.typed_data()[j];
    }
    y->typed_data()[i] = *alpha.typed_data() * sum;
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleMatVec, MatVec,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR0<ffi::F32>>()    // alpha
                                  .Arg<ffi::BufferR2<ffi::F32>>()    // a
                                  .Arg<ffi::BufferR1<ffi::F32>>()    // x
                                  .Ret<ffi::BufferR1<ffi::F32>>());  // y

// --- Operands and results that a call may leave out: the last ones
// examples.scale: (x f32[...], factor f32[]?) -> (y like x, sum f32[]?), y =
// factor x, and its sum if the call has a second result.
//
// Bound as AnyBuffer and checked here: with OptionalArg<Buffer<F32>> the FFI
// takes an operand of another type for one that is not there.

namespace {

using Array = ffi::Buffer<ffi::F32>;

bool IsScalar(ffi::AnyBuffer buffer) {
  return buffer.element_type() == ffi::F32 && buffer.dimensions().size() == 0;
}

ffi::Error Scale(Array x, std::optional<ffi::AnyBuffer> factor,
                 ffi::Result<Array> y,
                 std::optional<ffi::Result<ffi::AnyBuffer>> sum) {
  if (!(x.dimensions() == y->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.scale: result y: expected x's shape");
  }
  if ((factor.has_value() && !IsScalar(*factor)) ||
      (sum.has_value() && !IsScalar(**sum))) {
    return ffi::Error::InvalidArgument(
        "examples.scale: operand factor and result sum: expected f32 of rank "
        "0");
  }
  const float by = factor.has_value() ? *factor->typed_data<float>() : 1;
  float total = 0;
  for (size_t i = 0; i < x.element_count(); ++i) {
    total += y->typed_data()[i] = by * x.typed_data()[i];
  }
  if (sum.has_value()) *(*sum)->typed_data<float>() = total;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleScale, Scale,
                              ffi::Ffi::Bind()
                                  .Arg<Array>()                     // x
                                  .OptionalArg<ffi::AnyBuffer>()    // factor
                                  .Ret<Array>()                     // y
                                  .OptionalRet<ffi::AnyBuffer>());  // sum

// --- Any number of operands and results, of any dtypes
// examples.reverse_operands: (x0, x1, ..., xn) -> (xn, ..., x1, x0). Operands
// that are f32 vectors are negated on the way, so that the handler has to ask
// for each one's type.

namespace {

using Vector = ffi::BufferR1<ffi::F32>;

ffi::Error Move(ffi::RemainingArgs& from, size_t i, ffi::RemainingRets& to,
                size_t j) {
  const ffi::ErrorOr<ffi::AnyBuffer> x = from.get<ffi::AnyBuffer>(i);
  if (x.has_error()) return x.error();
  ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> y = to.get<ffi::AnyBuffer>(j);
  if (y.has_error()) return y.error();
  if (x->element_type() != (*y)->element_type() ||
      !(x->dimensions() == (*y)->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.reverse_operands: result " + std::to_string(j) +
        ": expected it to be like operand " + std::to_string(i));
  }
  if (from.isa<Vector>(i) && to.isa<Vector>(j)) {
    const Vector vector = *from.get<Vector>(i);
    float* out = (*to.get<Vector>(j))->typed_data();
    for (size_t k = 0; k < vector.element_count(); ++k) {
      out[k] = -vector.typed_data()[k];
    }
  } else if (x->size_bytes() > 0) {
    std::memcpy((*y)->untyped_data(), x->untyped_data(), x->size_bytes());
  }
  return ffi::Error::Success();
}

ffi::Error ReverseOperands(ffi::RemainingArgs x, ffi::RemainingRets y) {
  if (x.empty() || x.size() != y.size()) {
    return ffi::Error::InvalidArgument(
        "examples.reverse_operands: expected one result per operand and at "
        "least one, got " +
        std::to_string(x.size()) + " operands and " + std::to_string(y.size()) +
        " results");
  }
  for (size_t i = 0; i < x.size(); ++i) {
    ffi::Error error = Move(x, i, y, y.size() - 1 - i);
    if (error.failure()) return error;
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleReverseOperands, ReverseOperands,
                              ffi::Ffi::Bind()
                                  .RemainingArgs()    // x
                                  .RemainingRets());  // y, backwards

// --- Layouts: a handler sees bytes, not the order that the caller meant
// examples.column_sums: (a f32[m,n] in column-major order) -> f32[n]. In JAX,
// ffi_call(..., input_layouts=[(1, 0)]): the axes from the slowest to the
// fastest. XLA, in HLO text f32[m,n]{0,1}, lists them the other way about. XLA
// transposes an operand that lies otherwise.

namespace {

ffi::Error ColumnSums(ffi::BufferR2<ffi::F32> a,
                      ffi::ResultBufferR1<ffi::F32> sums) {
  // Dimensions are the logical ones, whatever the layout.
  const int64_t m = a.dimensions()[0], n = a.dimensions()[1];
  if (sums->dimensions()[0] != n) {
    return ffi::Error::InvalidArgument(
        "examples.column_sums: result: expected one element per column");
  }
  for (int64_t j = 0; j < n; ++j) {
    const float* column = a.typed_data() + j * m;  // contiguous
    float sum = 0;
    for (int64_t i = 0; i < m; ++i) sum += column[i];
    sums->typed_data()[j] = sum;
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleColumnSums, ColumnSums,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR2<ffi::F32>>()    // a
                                  .Ret<ffi::BufferR1<ffi::F32>>());  // sums

// --- Input-output aliasing: a result in the memory of an operand
// examples.add_one: (x s32[...]) -> y like x, y = x + 1; x and y may be one
// buffer. in_place tells whether they were. In JAX, ffi_call(...,
// input_output_aliases={0: 0}) asks for it: XLA then copies x first if anybody
// still needs it, and copies nothing if x is donated.

namespace {

ffi::Error AddOne(ffi::Buffer<ffi::S32> x, ffi::ResultBuffer<ffi::S32> y,
                  ffi::ResultBufferR0<ffi::PRED> in_place) {
  if (!(x.dimensions() == y->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.add_one: result y: expected x's shape");
  }
  for (size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = x.typed_data()[i] + 1;
  }
  *in_place->typed_data() = x.untyped_data() == y->untyped_data();
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleAddOne, AddOne,
    ffi::Ffi::Bind()
        .Arg<ffi::Buffer<ffi::S32>>()       // x
        .Ret<ffi::Buffer<ffi::S32>>()       // y
        .Ret<ffi::BufferR0<ffi::PRED>>());  // in_place

// --- Tuples: the handler sees their leaves, one after the other
// examples.tuple_sums: operands (a f32[k], (b f32[l], c f32[m])), flattened to
// a, b, c; results (sums f32[3], scratch f32[n]). The second result is never
// read: it is memory to work in, which is how a handler on the CPU gets any
// from XLA. JAX passes flat operands; XlaBuilder and HLO can pass tuples.

namespace {

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

}  // namespace ffi_examples
