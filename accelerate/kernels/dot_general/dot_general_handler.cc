#include "accelerate/kernels/dot_general/dot_general_handler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/kernels/dot_general/dot_general.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.dot_general";

std::optional<DotOrder> OrderOf(std::string_view name) {
  if (name == "fma") return DotOrder::kFma;
  if (name == "multiply_add") return DotOrder::kMultiplyAdd;
  if (name == "even_odd_fma") return DotOrder::kEvenOddFma;
  if (name == "fma_then_zero") return DotOrder::kFmaThenZero;
  if (name == "multiply_add_then_zero") {
    return DotOrder::kMultiplyAddThenZero;
  }
  return std::nullopt;
}

// A dimension, and how far its elements are apart.
struct Dim {
  int64_t size;
  int64_t stride;
};

// An operand's dimensions by what they are for.
struct Dims {
  std::vector<Dim> batch, free, contracting;
};

// Takes out of `dims` those listed, in the order of the list; those taken have
// size -1 afterwards.
ffi::Error Take(const Place& where, Dimensions list, std::vector<Dim>& dims,
                std::vector<Dim>* taken) {
  for (const int64_t axis : list) {
    if (axis < 0 || axis >= static_cast<int64_t>(dims.size()) ||
        dims[axis].size < 0) {
      return InvalidArgument(where,
                             "different dimensions of an operand of rank " +
                                 std::to_string(dims.size()),
                             std::to_string(axis));
    }
    taken->push_back(dims[axis]);
    dims[axis].size = -1;
  }
  return {};
}

ffi::Error Classify(std::string_view operand, ffi::AnyBuffer x,
                    Dimensions batch, Dimensions contracting, Dims* dims) {
  std::vector<Dim> all(x.dimensions().size());
  int64_t stride = 1;
  for (size_t axis = all.size(); axis-- > 0;) {
    all[axis] = {x.dimensions()[axis], stride};
    stride = Product(x.dimensions().last(all.size() - axis));
  }
  const std::string attribute = "attribute " + std::string(operand);
  XLA_FFI_KIT_RETURN_IF_ERROR(
      Take({kOp, attribute + "_batch"}, batch, all, &dims->batch));
  XLA_FFI_KIT_RETURN_IF_ERROR(Take({kOp, attribute + "_contracting"},
                                   contracting, all, &dims->contracting));
  std::copy_if(all.begin(), all.end(), std::back_inserter(dims->free),
               [](const Dim& dim) { return dim.size >= 0; });
  return {};
}

std::vector<int64_t> SizesOf(const std::vector<Dim>& dims) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.size);
  return sizes;
}

std::string SizesText(const std::vector<Dim>& dims) {
  const std::vector<int64_t> sizes = SizesOf(dims);
  return ShapeText({sizes.data(), sizes.size()});
}

ffi::Error CheckSameSizes(const Place& where, const std::vector<Dim>& rhs,
                          const std::vector<Dim>& lhs) {
  if (SizesOf(lhs) == SizesOf(rhs)) return {};
  return InvalidArgument(where, SizesText(lhs) + " like operand lhs",
                         SizesText(rhs));
}

// Computes how many elements the dimensions have together.
ffi::Error CheckSmall(const Place& where, const std::vector<Dim>& dims,
                      int64_t* size) {
  *size = 1;
  for (const Dim& dim : dims) {
    if (dim.size == 0) {
      *size = 0;
      return {};
    }
  }
  for (const Dim& dim : dims) {
    if (dim.size > kMaxDotSize / *size) {
      return InvalidArgument(where, "at most 8 elements together",
                             SizesText(dims));
    }
    *size *= dim.size;
  }
  return {};
}

// Where the elements of a matrix lie: all of `rows`, for each all of `columns`.
void FillOffsets(const std::vector<Dim>& rows, const std::vector<Dim>& columns,
                 int64_t* offsets) {
  std::vector<Dim> dims = rows;
  dims.insert(dims.end(), columns.begin(), columns.end());
  int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    offsets[i] = 0;
    for (size_t axis = dims.size(); axis-- > 0;) {
      offsets[i] += rest % dims[axis].size * dims[axis].stride;
      rest /= dims[axis].size;
    }
  }
}

// Neighboring dimensions of the batch as one, where both operands allow it.
std::vector<DotBatchDim> Batch(const Dims& lhs, const Dims& rhs) {
  std::vector<DotBatchDim> batch;
  for (size_t i = 0; i < lhs.batch.size(); ++i) {
    const DotBatchDim dim = {lhs.batch[i].size, lhs.batch[i].stride,
                             rhs.batch[i].stride};
    if (!batch.empty() &&
        batch.back().lhs_stride == dim.size * dim.lhs_stride &&
        batch.back().rhs_stride == dim.size * dim.rhs_stride) {
      batch.back() = {batch.back().size * dim.size, dim.lhs_stride,
                      dim.rhs_stride};
    } else {
      batch.push_back(dim);
    }
  }
  return batch;
}

std::vector<int64_t> ResultShape(const Dims& lhs, const Dims& rhs) {
  std::vector<int64_t> shape;
  for (const auto* dims : {&lhs.batch, &lhs.free, &rhs.free}) {
    for (const Dim& dim : *dims) shape.push_back(dim.size);
  }
  return shape;
}

ffi::Error DotGeneralImpl(ffi::ThreadPool pool, ffi::AnyBuffer lhs,
                          ffi::AnyBuffer rhs, ffi::Result<ffi::AnyBuffer> out,
                          Dimensions lhs_batch, Dimensions rhs_batch,
                          Dimensions lhs_contracting,
                          Dimensions rhs_contracting, std::string_view name) {
  const std::optional<DotOrder> order = OrderOf(name);
  if (!order.has_value()) {
    return InvalidArgument({kOp, "attribute order"},
                           "fma, multiply_add, even_odd_fma, fma_then_zero "
                           "or multiply_add_then_zero",
                           name);
  }
  Dims l, r;
  XLA_FFI_KIT_RETURN_IF_ERROR(
      Classify("lhs", lhs, lhs_batch, lhs_contracting, &l));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      Classify("rhs", rhs, rhs_batch, rhs_contracting, &r));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSameSizes({kOp, "operand rhs: batch dimensions"}, r.batch, l.batch));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSameSizes({kOp, "operand rhs: contracting dimensions"},
                     r.contracting, l.contracting));
  int64_t m, n, k;
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckSmall(
      {kOp, "operand lhs: contracting dimensions"}, l.contracting, &k));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSmall({kOp, "operand lhs: other dimensions"}, l.free, &m));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSmall({kOp, "operand rhs: other dimensions"}, r.free, &n));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckDtype(
      {kOp, "operand rhs"}, rhs, lhs.element_type(), "like operand lhs"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckDtype(
      {kOp, "result out"}, *out, lhs.element_type(), "like operand lhs"));
  const std::vector<int64_t> shape = ResultShape(l, r);
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShape({kOp, "result out"}, *out,
                                         {shape.data(), shape.size()},
                                         "from the operands"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData({kOp, "operand lhs"}, lhs));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData({kOp, "operand rhs"}, rhs));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData({kOp, "result out"}, *out));
  using Types = TypeList<float, double>;
  return DispatchDtype(
      Types(), lhs.element_type(), {kOp, "operand lhs"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        if (ElementCount(*out) == 0) return ffi::Error();
        DotProblem<T> problem;
        problem.m = m;
        problem.n = n;
        problem.k = k;
        problem.batch = Batch(l, r);
        FillOffsets(l.free, l.contracting, problem.lhs_offsets.data());
        FillOffsets(r.contracting, r.free, problem.rhs_offsets.data());
        problem.lhs = static_cast<const T*>(lhs.untyped_data());
        problem.rhs = static_cast<const T*>(rhs.untyped_data());
        problem.rhs_size = ElementCount(rhs);
        problem.out = static_cast<T*>(out->untyped_data());
        problem.order = *order;
        AdviseHugePages(out->untyped_data(), SizeBytes(*out));
        const ScratchStatus status = DotGeneral<T>(problem, pool);
        if (status) return {};
        return ScratchExhausted(kOp,
                                "for " + std::to_string(problem.batch.size()) +
                                    " dimensions of the batch",
                                status);
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateDotGeneralCpu, xla_ffi_kit::DotGeneralImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::ThreadPool>()
        .Arg<xla::ffi::AnyBuffer>()                              // lhs
        .Arg<xla::ffi::AnyBuffer>()                              // rhs
        .Ret<xla::ffi::AnyBuffer>()                              // out
        .Attr<xla::ffi::Span<const int64_t>>("lhs_batch")        // dimensions
        .Attr<xla::ffi::Span<const int64_t>>("rhs_batch")        // like them
        .Attr<xla::ffi::Span<const int64_t>>("lhs_contracting")  // dimensions
        .Attr<xla::ffi::Span<const int64_t>>("rhs_contracting")  // like them
        .Attr<std::string_view>("order"));  // of a DotOrder
