#include "accelerate/kernels/linalg/linalg_handler.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/kernels/linalg/linalg.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::linalg {
namespace {

namespace ffi = ::xla::ffi;

using Types = TypeList<float, double>;

constexpr Argument Matrices(const char* place) {
  return Operand(place).Of(Types()).RankAtLeast(2);
}
constexpr Argument OfRows(const char* place) {
  return Result(place).ShapeWithoutLastOf(0, "of the rows of operand a");
}
constexpr const char* kLikeA = "of operand a";

constexpr Argument kLuArguments[] = {
    Matrices("operand a"),
    Result("result lu").Like(0, kLikeA),
    OfRows("result pivots").Of<int32_t>("of row numbers"),
    OfRows("result permutation").Of<int32_t>("of row numbers"),
};
constexpr Argument kCholeskyArguments[] = {
    Matrices("operand a"),
    Result("result l").Like(0, kLikeA),
};
constexpr Argument kEighArguments[] = {
    Matrices("operand a"),
    Result("result v").Like(0, kLikeA),
    OfRows("result w").DtypeOf(0, kLikeA),
};
constexpr Attribute kEighAttributes[] = {Integer("is_lower")};
constexpr Argument kSolveArguments[] = {
    Matrices("operand a"),
    Operand("operand b").DtypeOf(0, kLikeA).RankAtLeast(2),
    Result("result x").Like(1, "of operand b"),
};
constexpr Attribute kSolveAttributes[] = {
    Integer("is_diagonal_one"), Integer("is_left"), Integer("is_lower"),
    Integer("is_transposed")};

constexpr XlaFfiKit_Signature
    kLu = MakeSignature("xla_ffi_accelerate.linalg_lu", kLuArguments),
    kCholesky =
        MakeSignature("xla_ffi_accelerate.linalg_cholesky", kCholeskyArguments),
    kEigh = MakeSignature("xla_ffi_accelerate.linalg_eigh", kEighArguments,
                          kEighAttributes),
    kSolve = MakeSignature("xla_ffi_accelerate.linalg_triangular_solve",
                           kSolveArguments, kSolveAttributes);

// Calls run(number of matrices, their rows, tag of their type) if operand a is
// square matrices of a size that there are kernels for.
template <typename Run>
ffi::Error ForMatrices(const Call& call, const Run& run) {
  const Dimensions dims = call.operand(0).dimensions();
  const int64_t n = dims.back();
  if (n < 1 || n > kMaxMatrix || dims[dims.size() - 2] != n) {
    return call.Invalid(
        0, "square matrices of 1 to " + std::to_string(kMaxMatrix) + " rows",
        "shape " + ShapeText(dims));
  }
  return call.Dispatch(Types(), 0, [&](auto tag) -> ffi::Error {
    run(Product(dims.first(dims.size() - 2)), n, tag);
    return {};
  });
}

ffi::Error RunLu(const Call& call, const Executor& executor) {
  return ForMatrices(call, [&](int64_t batch, int64_t n, auto tag) {
    using T = typename decltype(tag)::type;
    Lu(batch, n, call.In<T>(0), call.Out<T>(0), call.Out<int32_t>(1),
       call.Out<int32_t>(2), executor);
  });
}

ffi::Error RunCholesky(const Call& call, const Executor& executor) {
  return ForMatrices(call, [&](int64_t batch, int64_t n, auto tag) {
    using T = typename decltype(tag)::type;
    Cholesky(batch, n, call.In<T>(0), call.Out<T>(0), executor);
  });
}

ffi::Error RunEigh(const Call& call, const Executor& executor) {
  const bool is_lower = call.Get<int64_t>("is_lower") != 0;
  return ForMatrices(call, [&](int64_t batch, int64_t n, auto tag) {
    using T = typename decltype(tag)::type;
    Eigh(batch, n, is_lower, call.In<T>(0), call.Out<T>(0), call.Out<T>(1),
         executor);
  });
}

// Checks what a signature cannot express: operand b is like a, except for the
// number of vectors, which is the dimension `columns` from the last.
ffi::Error CheckVectors(const Call& call, size_t columns) {
  const ffi::AnyBuffer b = call.operand(1);
  const Dimensions a_dims = call.operand(0).dimensions(),
                   b_dims = b.dimensions();
  std::vector<int64_t> want(a_dims.begin(), a_dims.end());
  if (b_dims.size() == want.size()) {
    want[want.size() - columns] = b_dims[b_dims.size() - columns];
  }
  return CheckShape({call.operation(), "operand b"}, b, want,
                    "of rows of operand a");
}

ffi::Error RunSolve(const Call& call, const Executor& executor) {
  TriangularSolve solve;
  solve.is_left = call.Get<int64_t>("is_left") != 0;
  solve.is_lower = call.Get<int64_t>("is_lower") != 0;
  solve.is_transposed = call.Get<int64_t>("is_transposed") != 0;
  solve.is_diagonal_one = call.Get<int64_t>("is_diagonal_one") != 0;
  const size_t columns = solve.is_left ? 1 : 2;
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckVectors(call, columns));
  const Dimensions b = call.operand(1).dimensions();
  solve.columns = b[b.size() - columns];
  return ForMatrices(call, [&](int64_t batch, int64_t n, auto tag) {
    using T = typename decltype(tag)::type;
    if (Product(b) == 0) return;
    solve.batch = batch;
    solve.n = n;
    SolveTriangular(solve, call.In<T>(0), call.In<T>(1), call.Out<T>(0),
                    executor);
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgLuCpu,
                              (Checked<kLu, RunLu>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateLinalgLuCpu, kLu);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgCholeskyCpu,
                              (Checked<kCholesky, RunCholesky>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateLinalgCholeskyCpu, kCholesky);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgEighCpu,
                              (Checked<kEigh, RunEigh>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateLinalgEighCpu, kEigh);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgTriangularSolveCpu,
                              (Checked<kSolve, RunSolve>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateLinalgTriangularSolveCpu, kSolve);

}  // namespace xla_ffi_accelerate::linalg
