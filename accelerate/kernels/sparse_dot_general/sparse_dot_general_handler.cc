#include <cstdint>
#include <string>

#include "accelerate/kernels/sparse_dot_general/sparse_dot_general.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::sparse_dot_general {
namespace {

namespace ffi = ::xla::ffi;

template <const auto& kOperand, typename C>
ffi::Error CheckBatchOf(const C& call) {
  const Dimensions dims = call.template get<kOperand>().dims();
  const int64_t batch = call.template get<out>().dims()[0];
  if (dims[0] == batch || dims[0] == 1) return {};
  return call.template Invalid<kOperand>(
      "a batch of 1 or " + std::to_string(batch) + " like result out",
      "shape " + ShapeText(dims));
}

// The distance between matrices; 0 if the whole batch shares one.
int64_t StrideOf(Dimensions dims) {
  return dims[0] == 1 ? 0 : Product(dims.last(dims.size() - 1));
}

template <typename T, typename C>
SparseProblem<T> ProblemOf(const C& call) {
  const auto lhs = call.template get<data>();
  const auto right = call.template get<rhs>();
  const auto to = call.template get<out>();
  SparseProblem<T> problem;
  problem.batch = to.dims()[0];
  problem.entries = lhs.dims()[1];
  problem.rows = to.dims()[1];
  problem.length = right.dims()[1];
  problem.columns = to.dims()[2];
  problem.data = lhs.template as<T>();
  problem.rhs = right.template as<T>();
  problem.out = to.template as<T>();
  problem.data_stride = StrideOf(lhs.dims());
  problem.rhs_stride = StrideOf(right.dims());
  return problem;
}

ffi::Error RunBcoo(const BcooCall& call, const Executor& executor) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBatchOf<data>(call));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBatchOf<coordinates>(call));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBatchOf<rhs>(call));
  if (call.get<out>().count() == 0) return {};
  return call.Dispatch<data>([&](auto values) {
    return call.Dispatch<coordinates>([&](auto integers) {
      using T = typename decltype(values)::type;
      using I = typename decltype(integers)::type;
      CoordinateIndices<I> places;
      places.indices = call.get<coordinates>().as(integers);
      places.stride = StrideOf(call.get<coordinates>().dims());
      places.contracting = call.get<contracting>();
      MultiplyCoordinates(ProblemOf<T>(call), places, executor);
      return ffi::Error();
    });
  });
}

ffi::Error RunBcsr(const BcsrCall& call, const Executor& executor) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBatchOf<data>(call));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBatchOf<indices>(call));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBatchOf<indptr>(call));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBatchOf<rhs>(call));
  const Dimensions starts = call.get<indptr>().dims();
  const int64_t rows = call.get<out>().dims()[1];
  if (starts[1] - 1 != rows) {
    return call.Invalid<indptr>("a last axis of one more than the " +
                                    std::to_string(rows) +
                                    " rows of result out",
                                "shape " + ShapeText(starts));
  }
  if (call.get<out>().count() == 0) return {};
  return call.Dispatch<data>([&](auto values) {
    return call.Dispatch<indices>([&](auto integers) {
      using T = typename decltype(values)::type;
      using I = typename decltype(integers)::type;
      RowIndices<I> places;
      places.indices = call.get<indices>().as(integers);
      places.starts = call.get<indptr>().as(integers);
      places.indices_stride = StrideOf(call.get<indices>().dims());
      places.starts_stride = StrideOf(starts);
      MultiplyRows(ProblemOf<T>(call), places, executor);
      return ffi::Error();
    });
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateBcooDotGeneralCpu,
                              Checked<RunBcoo>, BindCall<RunBcoo>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateBcooDotGeneralCpu, BcooCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateBcsrDotGeneralCpu,
                              Checked<RunBcsr>, BindCall<RunBcsr>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateBcsrDotGeneralCpu, BcsrCall);

}  // namespace xla_ffi_accelerate::sparse_dot_general
