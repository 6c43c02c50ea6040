// Isotonic regression by pooling adjacent violators (Ayer et al., 1955): the
// values closest to the targets that never fall as the score rises. A loop with
// a stack, whose depth depends on the data, after a sort.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace {

namespace ffi = xla::ffi;
namespace kit = xla_ffi_kit;
using kit::BatchShape;

// One place of a row; `key` orders like its score.
struct Scored {
  uint32_t key;
  int32_t place;
};

// A run of places with one fitted value.
struct Block {
  double sum;  // of the targets
  int64_t count;
};

// Zeros are equal, and so are NaNs, which come last, as in JAX's sort.
uint32_t OrderedKey(float score) {
  if (score != score) return std::numeric_limits<uint32_t>::max();
  score += 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &score, sizeof(bits));
  return bits >> 31 ? ~bits : bits | uint32_t{1} << 31;
}

// Sorts n elements by 11 bits of the key at a time. `other` has the same size;
// returns which of the two has the result.
Scored* SortByKey(int64_t n, Scored* elements, Scored* other) {
  constexpr int kBits = 11, kPasses = 3;
  constexpr uint32_t kMask = (1u << kBits) - 1;
  std::array<std::array<int32_t, kMask + 1>, kPasses> begins = {};
  for (int64_t i = 0; i < n; ++i) {
    for (int pass = 0; pass < kPasses; ++pass) {
      ++begins[pass][elements[i].key >> (kBits * pass) & kMask];
    }
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    int32_t begin = 0;
    for (int32_t& count : begins[pass]) begin += std::exchange(count, begin);
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t digit = elements[i].key >> (kBits * pass) & kMask;
      other[begins[pass][digit]++] = elements[i];
    }
    std::swap(elements, other);
  }
  return elements;
}

// Fills `stack` with the blocks of the sorted places; returns how many.
int64_t Pool(int64_t n, const Scored* sorted, const float* targets,
             Block* stack) {
  Block* end = stack;
  for (int64_t i = 0; i < n;) {
    // Places with one score have one value.
    const uint32_t key = sorted[i].key;
    Block block = {0, 0};
    for (; i < n && sorted[i].key == key; ++i, ++block.count) {
      block.sum += targets[sorted[i].place];
    }
    while (end > stack && end[-1].sum * static_cast<double>(block.count) >=
                              block.sum * static_cast<double>(end[-1].count)) {
      --end;
      block.sum += end->sum;
      block.count += end->count;
    }
    *end++ = block;
  }
  return end - stack;
}

void FitRow(int64_t n, const float* scores, const float* targets,
            Scored* scratch, Block* stack, float* fitted, int32_t* numbers) {
  for (int64_t i = 0; i < n; ++i) {
    scratch[i] = {OrderedKey(scores[i]), static_cast<int32_t>(i)};
  }
  const Scored* place = SortByKey(n, scratch, scratch + n);
  const int64_t blocks = Pool(n, place, targets, stack);
  for (int64_t b = 0; b < blocks; ++b) {
    const auto mean =
        static_cast<float>(stack[b].sum / static_cast<double>(stack[b].count));
    for (int64_t k = 0; k < stack[b].count; ++k, ++place) {
      fitted[place->place] = mean;
      numbers[place->place] = static_cast<int32_t>(b);
    }
  }
}

// How a call goes over the rows: some 16 ns an element, as long as it takes to
// move 128 bytes.
struct Rows {
  Rows(const kit::Executor& executor, const BatchShape& shape)
      : parts(kit::NumParts(executor, shape.rows * shape.length,
                            kit::kParallelForMinBytes / 128, shape.rows)),
        workers(kit::NumWorkers(executor, parts)) {}

  int64_t parts, workers;
};

// The mean of `values` in each block. False if a number is none of a block.
bool AverageRow(int64_t n, const int32_t* numbers, const float* values,
                Block* blocks, float* means) {
  std::fill_n(blocks, n, Block{0, 0});
  for (int64_t i = 0; i < n; ++i) {
    if (numbers[i] < 0 || numbers[i] >= n) return false;
    blocks[numbers[i]].sum += values[i];
    ++blocks[numbers[i]].count;
  }
  for (int64_t b = 0; b < n && blocks[b].count > 0; ++b) {
    blocks[b].sum /= static_cast<double>(blocks[b].count);
  }
  for (int64_t i = 0; i < n; ++i) {
    means[i] = static_cast<float>(blocks[numbers[i]].sum);
  }
  return true;
}

// What the handlers take: rows of fewer than 2^31 elements.
constexpr int64_t kMaxLength = std::numeric_limits<int32_t>::max();
constexpr auto scores =
    kit::Operand{"scores", kit::TypeList<float>(), "(..., n)"}.Where(
        "n", 0, kMaxLength);
constexpr kit::Operand targets{"targets", scores};
constexpr kit::Result fitted{"fitted", scores};
constexpr kit::Result blocks{"blocks", kit::TypeList<int32_t>(),
                             kit::SameShape(scores)};
constexpr char kFit[] = "quickstart.isotonic";
using FitCall = kit::Call<kFit, scores, targets, fitted, blocks>;

ffi::Error Fit(const FitCall& call, const kit::Executor& executor) {
  const BatchShape shape = kit::SplitLastAxis(call.get<scores>().dims());
  const int64_t n = shape.length;
  if (shape.rows == 0 || n == 0) return ffi::Error::Success();
  const Rows rows(executor, shape);
  const kit::WorkerScratch<Scored> scratch(rows.workers, 2 * n);
  const kit::WorkerScratch<Block> stacks(rows.workers, n);
  if (!scratch.status() || !stacks.status()) {
    return kit::ScratchExhausted(
        kFit, "to sort and pool rows",
        scratch.status() ? stacks.status() : scratch.status());
  }
  const auto* score = call.get<scores>().as<float>();
  const auto* target = call.get<targets>().as<float>();
  auto* value = call.get<fitted>().as<float>();
  auto* number = call.get<blocks>().as<int32_t>();
  kit::ParallelParts(executor, shape.rows, rows.parts,
                     [&](int64_t begin, int64_t end, int64_t worker) noexcept {
                       for (int64_t i = begin * n; i < end * n; i += n) {
                         FitRow(n, score + i, target + i, scratch.of(worker),
                                stacks.of(worker), value + i, number + i);
                       }
                     });
  return ffi::Error::Success();
}

constexpr auto numbers =
    kit::Operand{"blocks", kit::TypeList<int32_t>(), "(..., n)"}.Where(
        "n", 0, kMaxLength);
constexpr kit::Operand values{"values", kit::TypeList<float>(),
                              kit::SameShape(numbers)};
constexpr kit::Result means{"means", values};
constexpr char kAverage[] = "quickstart.block_average";
using AverageCall = kit::Call<kAverage, numbers, values, means>;

ffi::Error Average(const AverageCall& call, const kit::Executor&) {
  const BatchShape shape = kit::SplitLastAxis(call.get<numbers>().dims());
  const int64_t n = shape.length, size = shape.rows * n;
  if (size == 0) return ffi::Error::Success();
  const kit::HostScratch<Block> scratch(n);
  if (!scratch.status()) {
    return kit::ScratchExhausted(kAverage, "for sums", scratch.status());
  }
  const auto* number = call.get<numbers>().as<int32_t>();
  const auto* value = call.get<values>().as<float>();
  auto* mean = call.get<means>().as<float>();
  for (int64_t i = 0; i < size; i += n) {
    if (!AverageRow(n, number + i, value + i, scratch.get(), mean + i)) {
      return call.Invalid<numbers>(
          "numbers from 0 on, less than " + std::to_string(n), "others");
    }
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(QuickstartIsotonic, kit::Checked<Fit>,
                              kit::BindCall<Fit>());
XLA_FFI_KIT_DEFINE_SIGNATURE(QuickstartIsotonic, FitCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(QuickstartBlockAverage, kit::Checked<Average>,
                              kit::BindCall<Average>());
XLA_FFI_KIT_DEFINE_SIGNATURE(QuickstartBlockAverage, AverageCall);
