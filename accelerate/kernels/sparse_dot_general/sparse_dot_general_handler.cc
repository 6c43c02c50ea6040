#include "accelerate/kernels/sparse_dot_general/sparse_dot_general_handler.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/kernels/sparse_dot_general/sparse_dot_general.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kBcoo = "xla_ffi_accelerate.bcoo_dot_general";
constexpr std::string_view kBcsr = "xla_ffi_accelerate.bcsr_dot_general";

using Values = TypeList<float, double>;
using Indices = TypeList<int32_t, int64_t>;

// An operand of the shape [batch or 1, dims...] with data.
ffi::Error CheckOperand(const Place& where, ffi::AnyBuffer buffer,
                        int64_t batch, const std::vector<int64_t>& dims) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRank(where, buffer, dims.size() + 1));
  std::vector<int64_t> want = dims;
  want.insert(want.begin(), buffer.dimensions()[0] == 1 ? 1 : batch);
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckShape(where, buffer, {want.data(), want.size()},
                 "(or a first dimension of 1) from the others"));
  return CheckData(where, buffer);
}

// From one matrix to the next; 0 if there is one for the whole batch.
int64_t StrideOf(ffi::AnyBuffer buffer) {
  const Dimensions dims = buffer.dimensions();
  return dims[0] == 1 ? 0 : Product(dims.last(dims.size() - 1));
}

// What both have: data, rhs and the result.
ffi::Error Check(std::string_view op, ffi::AnyBuffer data, ffi::AnyBuffer rhs,
                 ffi::AnyBuffer out) {
  const auto type = data.element_type();
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRank({op, "operand data"}, data, 2));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRank({op, "operand rhs"}, rhs, 3));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRank({op, "result out"}, out, 3));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype({op, "operand rhs"}, rhs, type, "like operand data"));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype({op, "result out"}, out, type, "like operand data"));
  const int64_t batch = out.dimensions()[0];
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckOperand({op, "operand data"}, data, batch, {data.dimensions()[1]}));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckOperand({op, "operand rhs"}, rhs, batch,
                   {rhs.dimensions()[1], out.dimensions()[2]}));
  return CheckData({op, "result out"}, out);
}

template <typename T>
SparseProblem<T> ProblemOf(ffi::AnyBuffer data, ffi::AnyBuffer rhs,
                           ffi::AnyBuffer out) {
  SparseProblem<T> problem;
  problem.batch = out.dimensions()[0];
  problem.entries = data.dimensions()[1];
  problem.rows = out.dimensions()[1];
  problem.length = rhs.dimensions()[1];
  problem.columns = out.dimensions()[2];
  problem.data = static_cast<const T*>(data.untyped_data());
  problem.rhs = static_cast<const T*>(rhs.untyped_data());
  problem.out = static_cast<T*>(out.untyped_data());
  problem.data_stride = StrideOf(data);
  problem.rhs_stride = StrideOf(rhs);
  return problem;
}

// Calls run(tag of the values' type, tag of the indices') for a result that has
// elements.
template <class Run>
ffi::Error Dispatch(std::string_view op, ffi::AnyBuffer data,
                    ffi::AnyBuffer indices, ffi::AnyBuffer out,
                    const Run& run) {
  return DispatchDtype(
      Values(), data.element_type(), {op, "operand data"}, [&](auto values) {
        return DispatchDtype(Indices(), indices.element_type(),
                             {op, "operand indices"}, [&](auto integers) {
                               if (ElementCount(out) > 0) run(values, integers);
                               return ffi::Error();
                             });
      });
}

ffi::Error BcooImpl(ffi::ThreadPool pool, ffi::AnyBuffer data,
                    ffi::AnyBuffer indices, ffi::AnyBuffer rhs,
                    ffi::Result<ffi::AnyBuffer> out, int64_t contracting) {
  XLA_FFI_KIT_RETURN_IF_ERROR(Check(kBcoo, data, rhs, *out));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckOperand({kBcoo, "operand indices"}, indices,
                                           out->dimensions()[0],
                                           {data.dimensions()[1], 2}));
  if (contracting != 0 && contracting != 1) {
    return InvalidArgument({kBcoo, "attribute contracting"}, "0 or 1",
                           std::to_string(contracting));
  }
  return Dispatch(kBcoo, data, indices, *out, [&](auto values, auto integers) {
    using T = typename decltype(values)::type;
    using I = typename decltype(integers)::type;
    CoordinateIndices<I> coordinates;
    coordinates.indices = static_cast<const I*>(indices.untyped_data());
    coordinates.stride = StrideOf(indices);
    coordinates.contracting = contracting;
    AdviseHugePages(out->untyped_data(), SizeBytes(*out));
    MultiplyCoordinates(ProblemOf<T>(data, rhs, *out), coordinates, pool);
  });
}

ffi::Error BcsrImpl(ffi::ThreadPool pool, ffi::AnyBuffer data,
                    ffi::AnyBuffer indices, ffi::AnyBuffer indptr,
                    ffi::AnyBuffer rhs, ffi::Result<ffi::AnyBuffer> out,
                    ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckNoAttributes(kBcsr, attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(Check(kBcsr, data, rhs, *out));
  const int64_t batch = out->dimensions()[0];
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckOperand({kBcsr, "operand indices"}, indices,
                                           batch, {data.dimensions()[1]}));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckDtype({kBcsr, "operand indptr"}, indptr,
                                         indices.element_type(),
                                         "like operand indices"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckOperand({kBcsr, "operand indptr"}, indptr,
                                           batch, {out->dimensions()[1] + 1}));
  return Dispatch(kBcsr, data, indices, *out, [&](auto values, auto integers) {
    using T = typename decltype(values)::type;
    using I = typename decltype(integers)::type;
    RowIndices<I> rows;
    rows.indices = static_cast<const I*>(indices.untyped_data());
    rows.starts = static_cast<const I*>(indptr.untyped_data());
    rows.indices_stride = StrideOf(indices);
    rows.starts_stride = StrideOf(indptr);
    AdviseHugePages(out->untyped_data(), SizeBytes(*out));
    MultiplyRows(ProblemOf<T>(data, rhs, *out), rows, pool);
  });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateBcooDotGeneralCpu,
                              xla_ffi_kit::BcooImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()      // data
                                  .Arg<xla::ffi::AnyBuffer>()      // indices
                                  .Arg<xla::ffi::AnyBuffer>()      // rhs
                                  .Ret<xla::ffi::AnyBuffer>()      // out
                                  .Attr<int64_t>("contracting"));  // 0 or 1

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateBcsrDotGeneralCpu,
                              xla_ffi_kit::BcsrImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // data
                                  .Arg<xla::ffi::AnyBuffer>()  // indices
                                  .Arg<xla::ffi::AnyBuffer>()  // indptr
                                  .Arg<xla::ffi::AnyBuffer>()  // rhs
                                  .Ret<xla::ffi::AnyBuffer>()  // out
                                  .Attrs());                   // none
