#include "accelerate/kernels/sparse_dot_general/sparse_dot_general_handler.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "accelerate/kernels/sparse_dot_general/sparse_dot_general.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::sparse_dot_general {
namespace {

namespace ffi = ::xla::ffi;

using Values = TypeList<float, double>;
using Indices = TypeList<int32_t, int64_t>;

constexpr Argument kData = Operand("operand data").Rank(2).Of(Values()),
                   kRhs = Operand("operand rhs").Rank(3).DtypeOf(0),
                   kOut = Result("result out").Rank(3).DtypeOf(0);

constexpr Argument kBcooArguments[] = {
    kData, Operand("operand indices").Rank(3).Of(Indices()), kRhs, kOut};
constexpr Attribute kBcooAttributes[] = {Integer("contracting").Between(0, 1)};
constexpr Argument kBcsrArguments[] = {
    kData, Operand("operand indices").Rank(2).Of(Indices()),
    Operand("operand indptr").Rank(2).DtypeOf(1), kRhs, kOut};

constexpr XlaFfiKit_Signature kBcoo = MakeSignature(
                                  "xla_ffi_accelerate.bcoo_dot_general",
                                  kBcooArguments, kBcooAttributes),
                              kBcsr = MakeSignature(
                                  "xla_ffi_accelerate.bcsr_dot_general",
                                  kBcsrArguments);

// A call of one of them.
struct SparseCall {
  const Call& call;
  size_t rhs;  // which operand it is

  ffi::AnyBuffer operand(size_t i) const { return call.operand(i); }
  int64_t entries() const { return operand(0).dimensions()[1]; }
  Dimensions out() const { return call.result(0).dimensions(); }

  // Whether operand `i` has the shape [batch or 1, dims...].
  ffi::Error Check(size_t i, std::vector<int64_t> dims) const {
    const ffi::AnyBuffer buffer = operand(i);
    dims.insert(dims.begin(), buffer.dimensions()[0] == 1 ? 1 : out()[0]);
    return CheckShape({call.operation(), call.NameOf(i)}, buffer,
                      {dims.data(), dims.size()},
                      "(or a first dimension of 1) from the others");
  }
  ffi::Error CheckDense() const {
    XLA_FFI_KIT_RETURN_IF_ERROR(Check(0, {entries()}));
    return Check(rhs, {operand(rhs).dimensions()[1], out()[2]});
  }

  // The distance between matrices; 0 if the whole batch shares one.
  int64_t StrideOf(size_t i) const {
    const Dimensions dims = operand(i).dimensions();
    return dims[0] == 1 ? 0 : Product(dims.last(dims.size() - 1));
  }

  template <typename T>
  SparseProblem<T> ProblemOf() const {
    SparseProblem<T> problem;
    problem.batch = out()[0];
    problem.entries = entries();
    problem.rows = out()[1];
    problem.length = operand(rhs).dimensions()[1];
    problem.columns = out()[2];
    problem.data = call.In<T>(0);
    problem.rhs = call.In<T>(rhs);
    problem.out = call.Out<T>(0);
    problem.data_stride = StrideOf(0);
    problem.rhs_stride = StrideOf(rhs);
    AdviseHugePages(problem.out, SizeBytes(call.result(0)));
    return problem;
  }

  // Calls run(tag of the values' type, tag of the indices') for a result that
  // has elements.
  template <class Run>
  ffi::Error Dispatch(const Run& run) const {
    return call.Dispatch(Values(), 0, [&](auto values) {
      return call.Dispatch(Indices(), 1, [&](auto integers) {
        if (Product(out()) > 0) run(values, integers);
        return ffi::Error();
      });
    });
  }
};

ffi::Error RunBcoo(const Call& call, const Executor& executor) {
  const SparseCall sparse = {call, /*rhs=*/2};
  XLA_FFI_KIT_RETURN_IF_ERROR(sparse.CheckDense());
  XLA_FFI_KIT_RETURN_IF_ERROR(sparse.Check(1, {sparse.entries(), 2}));
  return sparse.Dispatch([&](auto values, auto integers) {
    using T = typename decltype(values)::type;
    using I = typename decltype(integers)::type;
    CoordinateIndices<I> coordinates;
    coordinates.indices = call.In<I>(1);
    coordinates.stride = sparse.StrideOf(1);
    coordinates.contracting = call.Get<int64_t>("contracting");
    MultiplyCoordinates(sparse.ProblemOf<T>(), coordinates, executor);
  });
}

ffi::Error RunBcsr(const Call& call, const Executor& executor) {
  const SparseCall sparse = {call, /*rhs=*/3};
  XLA_FFI_KIT_RETURN_IF_ERROR(sparse.CheckDense());
  XLA_FFI_KIT_RETURN_IF_ERROR(sparse.Check(1, {sparse.entries()}));
  XLA_FFI_KIT_RETURN_IF_ERROR(sparse.Check(2, {sparse.out()[1] + 1}));
  return sparse.Dispatch([&](auto values, auto integers) {
    using T = typename decltype(values)::type;
    using I = typename decltype(integers)::type;
    RowIndices<I> rows;
    rows.indices = call.In<I>(1);
    rows.starts = call.In<I>(2);
    rows.indices_stride = sparse.StrideOf(1);
    rows.starts_stride = sparse.StrideOf(2);
    MultiplyRows(sparse.ProblemOf<T>(), rows, executor);
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateBcooDotGeneralCpu,
                              (Checked<kBcoo, RunBcoo>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateBcooDotGeneralCpu, kBcoo);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateBcsrDotGeneralCpu,
                              (Checked<kBcsr, RunBcsr>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateBcsrDotGeneralCpu, kBcsr);

}  // namespace xla_ffi_accelerate::sparse_dot_general
