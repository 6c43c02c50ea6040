#include "accelerate/kernels/dot_general/dot_general_handler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/kernels/dot_general/dot_general.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::dot_general {
namespace {

namespace ffi = ::xla::ffi;

using Types = TypeList<float, double>;

constexpr Argument kArguments[] = {
    Operand("operand lhs").Of(Types()),
    Operand("operand rhs").DtypeOf(0),
    Result("result out").DtypeOf(0),
};
// The names of the enumerators of DotOrder, in their order.
constexpr const char* kOrders[] = {"fma", "multiply_add", "even_odd_fma",
                                   "fma_then_zero", "multiply_add_then_zero"};
constexpr Attribute kAttributes[] = {
    Integers("lhs_batch"), Integers("lhs_contracting"), Word("order", kOrders),
    Integers("rhs_batch"), Integers("rhs_contracting"),
};
constexpr XlaFfiKit_Signature kDotGeneral =
    MakeSignature("xla_ffi_accelerate.dot_general", kArguments, kAttributes);

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

ffi::Error Classify(const Call& call, size_t operand, Dims* dims) {
  const Dimensions sizes = call.operand(operand).dimensions();
  std::vector<Dim> all(sizes.size());
  int64_t stride = 1;
  for (size_t axis = all.size(); axis-- > 0;) {
    all[axis] = {sizes[axis], stride};
    stride = Product(sizes.last(all.size() - axis));
  }
  const std::string side = operand == 0 ? "lhs" : "rhs";
  const auto take = [&](const std::string& name, std::vector<Dim>* taken) {
    return Take({call.operation(), "attribute " + name},
                call.Get<Dimensions>(name), all, taken);
  };
  XLA_FFI_KIT_RETURN_IF_ERROR(take(side + "_batch", &dims->batch));
  XLA_FFI_KIT_RETURN_IF_ERROR(take(side + "_contracting", &dims->contracting));
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

// Fills in the offsets of a matrix's elements, row by row.
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

// How many elements the dimensions of a product have together.
struct Sizes {
  int64_t m, n, k;
};

ffi::Error CheckShapes(const Call& call, const Dims& l, const Dims& r,
                       Sizes* sizes) {
  const std::string_view op = call.operation();
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSameSizes({op, "operand rhs: batch dimensions"}, r.batch, l.batch));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSameSizes({op, "operand rhs: contracting dimensions"}, r.contracting,
                     l.contracting));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckSmall(
      {op, "operand lhs: contracting dimensions"}, l.contracting, &sizes->k));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSmall({op, "operand lhs: other dimensions"}, l.free, &sizes->m));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSmall({op, "operand rhs: other dimensions"}, r.free, &sizes->n));
  const std::vector<int64_t> shape = ResultShape(l, r);
  return CheckShape({op, "result out"}, call.result(0),
                    {shape.data(), shape.size()}, "from the operands");
}

ffi::Error RunDotGeneral(const Call& call, const Executor& executor) {
  Dims l, r;
  Sizes sizes;
  XLA_FFI_KIT_RETURN_IF_ERROR(Classify(call, 0, &l));
  XLA_FFI_KIT_RETURN_IF_ERROR(Classify(call, 1, &r));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShapes(call, l, r, &sizes));
  const ffi::AnyBuffer out = call.result(0);
  if (ElementCount(out) == 0) return {};
  return call.Dispatch(Types(), 0, [&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    DotProblem<T> problem;
    problem.m = sizes.m;
    problem.n = sizes.n;
    problem.k = sizes.k;
    problem.batch = Batch(l, r);
    FillOffsets(l.free, l.contracting, problem.lhs_offsets.data());
    FillOffsets(r.contracting, r.free, problem.rhs_offsets.data());
    problem.lhs = call.In<T>(0);
    problem.rhs = call.In<T>(1);
    problem.rhs_size = ElementCount(call.operand(1));
    problem.out = call.Out<T>(0);
    problem.order = static_cast<DotOrder>(call.WordOf("order"));
    AdviseHugePages(problem.out, SizeBytes(out));
    const ScratchStatus status = DotGeneral<T>(problem, executor);
    if (status) return {};
    return ScratchExhausted(call.operation(),
                            "for " + std::to_string(problem.batch.size()) +
                                " dimensions of the batch",
                            status);
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateDotGeneralCpu,
                              (Checked<kDotGeneral, RunDotGeneral>),
                              BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateDotGeneralCpu, kDotGeneral);

}  // namespace xla_ffi_accelerate::dot_general
