#include "accelerate/kernels/linalg/linalg_handler.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/kernels/linalg/linalg.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kLu = "xla_ffi_accelerate.linalg_lu";
constexpr std::string_view kCholesky = "xla_ffi_accelerate.linalg_cholesky";
constexpr std::string_view kEigh = "xla_ffi_accelerate.linalg_eigh";
constexpr std::string_view kSolve =
    "xla_ffi_accelerate.linalg_triangular_solve";

using Types = TypeList<float, double>;

ffi::Error CheckMatrices(const Place& where, ffi::AnyBuffer a) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where, a, 2));
  const Dimensions dims = a.dimensions();
  const int64_t n = dims.back();
  if (n < 1 || n > kMaxMatrix || dims[dims.size() - 2] != n) {
    return InvalidArgument(where, "square matrices of 1 to 8 rows",
                           "shape " + ShapeText(dims));
  }
  return CheckData(where, a);
}

// Matrices of n rows in all.
int64_t BatchOf(ffi::AnyBuffer a) {
  return Product(a.dimensions().first(a.dimensions().size() - 2));
}

// One number for each row.
ffi::Error CheckRowsShape(const Place& where, ffi::AnyBuffer rows,
                          ffi::AnyBuffer a) {
  const Dimensions dims = a.dimensions();
  const std::vector<int64_t> want(dims.begin(), dims.end() - 1);
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckShape(where, rows, want, "of the rows of operand a"));
  return CheckData(where, rows);
}

ffi::Error CheckRows(const Place& where, ffi::AnyBuffer rows,
                     ffi::AnyBuffer a) {
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where, rows, ffi::S32, "of row numbers"));
  return CheckRowsShape(where, rows, a);
}

ffi::Error LuImpl(ffi::ThreadPool pool, ffi::AnyBuffer a,
                  ffi::Result<ffi::AnyBuffer> lu,
                  ffi::Result<ffi::AnyBuffer> pivots,
                  ffi::Result<ffi::AnyBuffer> permutation,
                  ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckNoAttributes(kLu, attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckMatrices({kLu, "operand a"}, a));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kLu, "result lu"}, *lu, a, "of operand a"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRows({kLu, "result pivots"}, *pivots, a));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckRows({kLu, "result permutation"}, *permutation, a));
  return DispatchDtype(
      Types(), a.element_type(), {kLu, "operand a"}, [&](auto tag) {
        using T = typename decltype(tag)::type;
        Lu(BatchOf(a), a.dimensions().back(),
           static_cast<const T*>(a.untyped_data()),
           static_cast<T*>(lu->untyped_data()),
           static_cast<int32_t*>(pivots->untyped_data()),
           static_cast<int32_t*>(permutation->untyped_data()), pool);
        return ffi::Error();
      });
}

ffi::Error CholeskyImpl(ffi::ThreadPool pool, ffi::AnyBuffer a,
                        ffi::Result<ffi::AnyBuffer> l,
                        ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckNoAttributes(kCholesky, attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckMatrices({kCholesky, "operand a"}, a));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kCholesky, "result l"}, *l, a, "of operand a"));
  return DispatchDtype(Types(), a.element_type(), {kCholesky, "operand a"},
                       [&](auto tag) {
                         using T = typename decltype(tag)::type;
                         Cholesky(BatchOf(a), a.dimensions().back(),
                                  static_cast<const T*>(a.untyped_data()),
                                  static_cast<T*>(l->untyped_data()), pool);
                         return ffi::Error();
                       });
}

ffi::Error EighImpl(ffi::ThreadPool pool, ffi::AnyBuffer a,
                    ffi::Result<ffi::AnyBuffer> v,
                    ffi::Result<ffi::AnyBuffer> w, int64_t is_lower) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckMatrices({kEigh, "operand a"}, a));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kEigh, "result v"}, *v, a, "of operand a"));
  const Place result = {kEigh, "result w"};
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(result, *w, a.element_type(), "of operand a"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRowsShape(result, *w, a));
  return DispatchDtype(Types(), a.element_type(), {kEigh, "operand a"},
                       [&](auto tag) {
                         using T = typename decltype(tag)::type;
                         Eigh(BatchOf(a), a.dimensions().back(), is_lower != 0,
                              static_cast<const T*>(a.untyped_data()),
                              static_cast<T*>(v->untyped_data()),
                              static_cast<T*>(w->untyped_data()), pool);
                         return ffi::Error();
                       });
}

// `b` is like `a`, but for the number of vectors.
ffi::Error CheckVectors(ffi::AnyBuffer a, ffi::AnyBuffer b, bool is_left) {
  const Place where = {kSolve, "operand b"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where, b, 2));
  const Dimensions a_dims = a.dimensions(), b_dims = b.dimensions();
  std::vector<int64_t> want(a_dims.begin(), a_dims.end());
  const size_t columns = is_left ? 1 : 2;  // which dimension, from the last
  if (b_dims.size() == want.size()) {
    want[want.size() - columns] = b_dims[b_dims.size() - columns];
  }
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where, b, a.element_type(), "of operand a"));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckShape(where, b, want, "of rows of operand a"));
  return CheckData(where, b);
}

ffi::Error SolveImpl(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b,
                     ffi::Result<ffi::AnyBuffer> x, int64_t is_left,
                     int64_t is_lower, int64_t is_transposed,
                     int64_t is_diagonal_one) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckMatrices({kSolve, "operand a"}, a));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckVectors(a, b, is_left != 0));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kSolve, "result x"}, *x, b, "of operand b"));
  TriangularSolve solve;
  solve.batch = BatchOf(a);
  solve.n = a.dimensions().back();
  const Dimensions dims = b.dimensions();
  solve.columns = dims[dims.size() - (is_left != 0 ? 1 : 2)];
  solve.is_left = is_left != 0;
  solve.is_lower = is_lower != 0;
  solve.is_transposed = is_transposed != 0;
  solve.is_diagonal_one = is_diagonal_one != 0;
  if (ElementCount(b) == 0) return {};
  return DispatchDtype(
      Types(), a.element_type(), {kSolve, "operand a"}, [&](auto tag) {
        using T = typename decltype(tag)::type;
        SolveTriangular(solve, static_cast<const T*>(a.untyped_data()),
                        static_cast<const T*>(b.untyped_data()),
                        static_cast<T*>(x->untyped_data()), pool);
        return ffi::Error();
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgLuCpu, xla_ffi_kit::LuImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // a
                                  .Ret<xla::ffi::AnyBuffer>()  // lu
                                  .Ret<xla::ffi::AnyBuffer>()  // pivots
                                  .Ret<xla::ffi::AnyBuffer>()  // permutation
                                  .Attrs());

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgCholeskyCpu,
                              xla_ffi_kit::CholeskyImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // a
                                  .Ret<xla::ffi::AnyBuffer>()  // l
                                  .Attrs());

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgEighCpu,
                              xla_ffi_kit::EighImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // a
                                  .Ret<xla::ffi::AnyBuffer>()  // v
                                  .Ret<xla::ffi::AnyBuffer>()  // w
                                  .Attr<int64_t>("is_lower"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgTriangularSolveCpu,
                              xla_ffi_kit::SolveImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // a
                                  .Arg<xla::ffi::AnyBuffer>()  // b
                                  .Ret<xla::ffi::AnyBuffer>()  // x
                                  .Attr<int64_t>("is_left")
                                  .Attr<int64_t>("is_lower")
                                  .Attr<int64_t>("is_transposed")
                                  .Attr<int64_t>("is_diagonal_one"));
