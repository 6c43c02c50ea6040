#include "xla_ffi/testing/handlers/handler_calls.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "xla_ffi/core/batch_shape.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;
using Dims = CallFrame::Dims;

// Memory of zeros for an operand or a result, the `which`th of a call, of that
// many bytes. As it may be given again in another call, it stays where it is.
void* Bytes(size_t which, size_t bytes) {
  if (bytes > static_cast<size_t>(kMaxHandlerCallBytes)) {
    throw std::length_error("MakeFrame: expected arrays of up to " +
                            std::to_string(kMaxHandlerCallBytes) +
                            " bytes, got one of " + std::to_string(bytes));
  }
  static std::vector<void*>& memory = *new std::vector<void*>;
  while (memory.size() <= which) {
    memory.push_back(std::calloc(1, kMaxHandlerCallBytes));
  }
  return memory[which];
}

size_t SizeOf(ffi::DataType dtype, const Dims& dims) {
  return ffi::ByteWidth(dtype) *
         static_cast<size_t>(Product({dims.data(), dims.size()}));
}

XLA_FFI_DataType C(ffi::DataType dtype) {
  return static_cast<XLA_FFI_DataType>(dtype);
}

// Memory for arrays with elements. Results of empty operands have few of them.
void* Data(const Dims& dims) {
  alignas(64) static char memory[1 << 12] = {};
  int64_t bytes = 8;
  for (const int64_t dim : dims) {
    if (dim == 0 || dim > static_cast<int64_t>(sizeof memory) / bytes) {
      return nullptr;
    }
    bytes *= dim;
  }
  return memory;
}

}  // namespace

CallFrame MakeFrame(const std::vector<ffi::DataType>& args,
                    const std::vector<CallFrame::Dims>& arg_dims,
                    const std::vector<ffi::DataType>& rets,
                    const std::vector<CallFrame::Dims>& ret_dims) {
  CallFrame frame;
  size_t next = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    frame.Arg(C(args[i]), Bytes(next++, SizeOf(args[i], arg_dims[i])),
              arg_dims[i]);
  }
  for (size_t i = 0; i < rets.size(); ++i) {
    frame.Ret(C(rets[i]), Bytes(next++, SizeOf(rets[i], ret_dims[i])),
              ret_dims[i]);
  }
  return frame;
}

CallFrame MakeEmptyFrame(const std::vector<EmptyBuffer>& operands,
                         const std::vector<EmptyBuffer>& results) {
  CallFrame frame;
  for (const EmptyBuffer& b : operands) {
    frame.Arg(C(b.dtype), Data(b.dims), b.dims);
  }
  for (const EmptyBuffer& b : results) {
    frame.Ret(C(b.dtype), Data(b.dims), b.dims);
  }
  return frame;
}

Dims Plus(Dims dims, const Dims& more) {
  dims.insert(dims.end(), more.begin(), more.end());
  return dims;
}

std::vector<CallFrame> OverEmptyBatches(
    const std::function<std::vector<CallFrame>(const Dims&, int64_t)>& of_rank1,
    const std::function<std::vector<CallFrame>(const Dims&)>& of_matrices) {
  const std::vector<Dims> batches = {{0},
                                     {kHugeDim},
                                     {0, kHugeDim, kHugeDim},
                                     {kHugeDim, kHugeDim, 0},
                                     {kHugeDim, kHugeDim}};
  std::vector<CallFrame> cases;
  for (const Dims& batch : batches) {
    const bool is_empty = batch.front() == 0 || batch.back() == 0;
    for (const int64_t n : {int64_t{0}, int64_t{3}, kHugeDim}) {
      if (of_rank1 == nullptr || (!is_empty && n != 0)) continue;
      for (CallFrame& c : of_rank1(batch, n)) cases.push_back(c);
    }
    if (!is_empty || of_matrices == nullptr) continue;
    for (CallFrame& c : of_matrices(batch)) cases.push_back(c);
  }
  return cases;
}

}  // namespace xla_ffi_kit::testing
