// What the signatures of the package's handlers do not say.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/frame_memory.h"
#include "xla_ffi/testing/frames.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;
using Axes = std::vector<int64_t>;
using Buffer = CallFrame::Buffer;
using Dims = CallFrame::Dims;

// A large array of which threads have parts.
bool IsLarge(const Buffer& buffer) { return CountOf(buffer) > 1 << 15; }

// --- Calls -------------------------------------------------------------------

// Every second time few images of many channels, in place of many small ones.
void MaybeFewImages(CallFrame& frame, Choices& choices) {
  const int64_t count = CountOf(frame.args()[0]);
  if (!IsLarge(frame.args()[0]) || choices.Below(2) == 0) return;
  const int64_t channels = count / 64;
  frame.args()[0].dims = {1, 8, 8, channels};
  for (Buffer* other : {&frame.args()[1], &frame.rets()[0]}) {
    other->dims.back() = channels;
    if (other->dims.size() == 4) other->dims[0] = 1;
  }
}

CallFrame& ChooseStrides(CallFrame& frame, Choices& choices) {
  return frame.Attr("strides", Axes{1 + choices.Below(2), 1})
      .Attr("padding", Axes{choices.Below(3), 1})
      .Attr("window_dilation", Axes{1 + choices.Below(2), 1});
}

// Results as large as the images, of small windows.
void FitConv(CallFrame& frame, Choices& choices) {
  MaybeFewImages(frame, choices);
  frame.rets()[0].dims = frame.args()[0].dims;
  for (const int axis : {0, 1}) {
    int64_t& size = frame.args()[1].dims[axis];
    size = std::min<int64_t>(size, 3);
  }
  ChooseStrides(frame, choices);
}

void FitPool(CallFrame& frame, Choices& choices) {
  MaybeFewImages(frame, choices);
  Dims& source = frame.args()[0].dims;
  const int64_t stride = 1 + choices.Below(3);
  for (Buffer* images : {&frame.args()[1], &frame.rets()[0]}) {
    images->dims = source;
    for (const int axis : {1, 2}) {
      images->dims[axis] = std::min(source[axis] * stride, int64_t{1} << 30);
    }
  }
  frame.Attr("window", Axes{stride, 2})
      .Attr("strides", Axes{stride, stride})
      .Attr("padding", Axes{0, 1});
}

// From the end only what is not rounded is summed.
void FitCumulative(CallFrame& frame, Choices&) {
  const auto dtype = static_cast<ffi::DataType>(frame.args()[0].dtype);
  const bool is_float = dtype == ffi::F16 || dtype == ffi::BF16 ||
                        dtype == ffi::F32 || dtype == ffi::F64;
  if (is_float && frame.attributes().Integer("reverse") != 0) {
    frame.Attr("reverse", int64_t{0});
  }
}

// Of the batch that lhs has: small matrices.
void FitDotGeneral(CallFrame& frame, Choices& choices) {
  Dims batch = frame.args()[0].dims;
  if (IsLarge(frame.args()[0])) {
    *std::max_element(batch.begin(), batch.end()) /= 16;
  }
  const int64_t m = choices.Below(5), k = choices.Below(5),
                n = choices.Below(5);
  const auto with = [&](int64_t rows, int64_t columns) {
    Dims dims = batch;
    dims.push_back(rows);
    dims.push_back(columns);
    return dims;
  };
  frame.args()[0].dims = with(m, k);
  frame.args()[1].dims = with(k, n);
  frame.rets()[0].dims = with(m, n);
  const auto size = static_cast<int64_t>(batch.size());
  Axes axes(size);
  for (int64_t i = 0; i < size; ++i) axes[i] = i;
  frame.Attr("lhs_batch", axes)
      .Attr("rhs_batch", axes)
      .Attr("lhs_contracting", Axes{size + 1})
      .Attr("rhs_contracting", Axes{size});
}

void FitSolve(CallFrame& frame, Choices&) {
  const int64_t n = frame.args()[0].dims.back();
  Dims& b = frame.args()[1].dims;
  const bool is_left = frame.attributes().Integer("is_left") != 0;
  b[b.size() - (is_left ? 2 : 1)] = n;
  frame.rets()[0].dims = b;
}

void FitRandomBits(CallFrame& frame, Choices& choices) {
  // Keys for the first of the axes.
  const Dims& bits = frame.rets()[0].dims;
  const int64_t axes =
      bits.empty() ? 0 : choices.Below(static_cast<int64_t>(bits.size()));
  Dims& keys = frame.args()[0].dims;
  keys.assign(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(axes));
  keys.push_back(2);
}

void FitThreefry(CallFrame& frame, Choices& choices) {
  if (choices.Below(2) == 0) return;
  frame.args()[0].dims = frame.args()[1].dims = {};
}

// What has no order is no key.
void FitSort(CallFrame& frame, Choices& choices) {
  const auto has_order = [](const Buffer& buffer) {
    const auto dtype = static_cast<ffi::DataType>(buffer.dtype);
    return dtype != ffi::C64 && dtype != ffi::C128 && dtype != ffi::F8E5M2;
  };
  std::vector<Buffer>& all = frame.args();
  if (!has_order(all[0])) {
    all[0].dtype = frame.rets()[0].dtype = XLA_FFI_DataType_F32;
  }
  int64_t most = 0;
  while (most < static_cast<int64_t>(all.size()) && has_order(all[most])) {
    ++most;
  }
  frame.Attr("num_keys", 1 + choices.Below(most));
}

void FitTopK(CallFrame& frame, Choices& choices) {
  const int64_t n = frame.args()[0].dims.back();
  const int64_t some[] = {64, n / 333, n / 10, n};
  for (Buffer& result : frame.rets()) result.dims = frame.args()[0].dims;
  const int64_t k = n < 64 ? choices.Below(n + 1) : some[choices.Below(4)];
  for (Buffer& result : frame.rets()) result.dims.back() = k;
}

}  // namespace

HandlerHooks GetHandlerHooks() {
  HandlerHooks of;
  const auto at = [&](const std::string& op) -> HandlerHook& {
    return of["xla_ffi_accelerate." + op];
  };
  at("conv_general_dilated").fit = FitConv;
  at("cumulative").fit = FitCumulative;
  at("dot_general").fit = FitDotGeneral;
  at("linalg_triangular_solve").fit = FitSolve;
  at("random_bits").fit = FitRandomBits;
  at("select_and_scatter_add").fit = FitPool;
  at("sort").fit = FitSort;
  at("threefry2x32").fit = FitThreefry;
  at("top_k").fit = FitTopK;
  return of;
}

}  // namespace xla_ffi_kit::testing
