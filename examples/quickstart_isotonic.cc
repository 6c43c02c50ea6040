// Isotonic regression of each row, a handler that says what it takes.

#include <cstdint>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace {

namespace ffi = xla::ffi;
namespace kit = xla_ffi_kit;

constexpr kit::Operand x{"x", kit::TypeList<float, double>(), "(..., n)"};
constexpr kit::Result y{"y", x};  // like x
constexpr char kName[] = "examples.isotonic";
using IsotonicCall = kit::Call<kName, x, y>;

template <typename T>
struct Block {
  T sum;
  int64_t length;
};

// Pools neighbors that fall (Ayer et al., 1955). `blocks` has room for n.
template <typename T>
void FitRow(int64_t n, const T* x, Block<T>* blocks, T* y) {
  Block<T>* end = blocks;
  for (int64_t i = 0; i < n; ++i) {
    Block<T> block = {x[i], 1};
    // NaN is less than nothing, and so in one block with all.
    for (; end > blocks && !(end[-1].sum * static_cast<T>(block.length) <
                             block.sum * static_cast<T>(end[-1].length));
         --end) {
      block.sum += end[-1].sum;
      block.length += end[-1].length;
    }
    *end++ = block;
  }
  for (const Block<T>* block = blocks; block < end; ++block) {
    const T mean = block->sum / static_cast<T>(block->length);
    for (int64_t i = 0; i < block->length; ++i) *y++ = mean;
  }
}

ffi::Error Fit(const IsotonicCall& call, const kit::Executor& executor) {
  return call.Dispatch<x>([&](auto tag) {
    using T = typename decltype(tag)::type;
    const kit::BatchShape shape = kit::SplitLastAxis(call.get<x>().dims());
    const int64_t n = shape.length;
    const kit::WorkerScratch<Block<T>> blocks(
        kit::NumWorkers(executor, shape.rows), n);
    if (!blocks.status()) {
      return kit::ScratchExhausted(kName, "to pool rows", blocks.status());
    }
    const T* in = call.get<x>().as(tag);
    T* out = call.get<y>().as(tag);
    // An element takes about as long as moving 64 bytes.
    kit::ParallelFor(executor, shape.rows, 64 * n,
                     [&](int64_t begin, int64_t end, int64_t worker) noexcept {
                       for (int64_t i = begin * n; i < end * n; i += n) {
                         FitRow(n, in + i, blocks.of(worker), out + i);
                       }
                     });
    return ffi::Error::Success();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(QuickstartIsotonic, kit::Checked<Fit>,
                              kit::BindCall<Fit>());
XLA_FFI_KIT_DEFINE_SIGNATURE(QuickstartIsotonic, IsotonicCall);
