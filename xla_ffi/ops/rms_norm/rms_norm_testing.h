// Calls of the handlers of RMS normalization, on any platform, with every set
// of operands, and whether their results are what the formulas of rms_norm.h
// say.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_TESTING_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::rms_norm_testing {

using testing::CallFrame;

// What the formulas are computed in.
using Wide = long double;

// The value of an element, exactly.
template <typename T>
Wide Value(T value) {
  return static_cast<AccumulationType<T>>(value);
}

// The element for a value, rounded.
template <typename T>
T Narrow(double value) {
  return T(static_cast<AccumulationType<T>>(value));
}

// Half the distance of neighboring values of T, relative to them.
template <typename T>
Wide UnitRoundoff() {
  if (std::is_same_v<T, Float16>) return 0x1p-11L;
  if (std::is_same_v<T, BFloat16>) return 0x1p-8L;
  return std::numeric_limits<AccumulationType<T>>::epsilon() / 2;
}

inline constexpr double kEps = 0.25;

enum Handler { kForward, kBackward, kWeightBackward };

// The handlers of a platform, and how to call them.
struct Platform {
  XLA_FFI_Handler* handlers[3];
  int64_t threads = 1;
  // How many partial sums of each weight the workspace has room for; 0: there
  // is no workspace.
  int64_t partial_sums = 0;
};

// Operands and results, a letter for each: x for one like x, w for one like the
// weight, s for one like the scale. The first results may be in the places of
// operands, whose numbers these are.
struct Variant {
  Handler handler;
  std::string operands, results;
  std::vector<size_t> in_place = {};

  bool HasEps() const { return operands.find('s') == std::string::npos; }
};

// Every set of operands, and each place for the results.
inline const std::vector<Variant>& Variants() {
  static const auto& variants =
      *new std::vector<Variant>{{kForward, "x", "x"},
                                {kForward, "x", "xs", {0}},
                                {kForward, "xw", "x", {0}},
                                {kForward, "xw", "xs"},
                                {kForward, "xwx", "xx", {2}},
                                {kForward, "xwx", "xxs", {0, 2}},
                                {kBackward, "xx", "x", {1}},
                                {kBackward, "xxs", "x", {0}},
                                {kWeightBackward, "xxsw", "xw", {1}},
                                {kWeightBackward, "xxswx", "xw", {4}}};
  return variants;
}

// Weights, rows of each, elements of a row, and elements before each array, so
// that vectors are not aligned.
struct Shape {
  int64_t weights, rows, n;
  int64_t shift = 0;

  CallFrame::Dims DimsOf(char kind) const {
    if (kind == 's') return {weights, rows};
    if (kind == 'w') return {weights, n};
    return {weights, rows, n};
  }
  int64_t SizeOf(char kind) const {
    int64_t size = 1;
    for (const int64_t dim : DimsOf(kind)) size *= dim;
    return size;
  }
};

// The mean of term(i) over [0, n), in blocks: a plain sum of 2^24 equal terms
// is off by 5e-14 even as Wide.
template <typename Term>
Wide Mean(int64_t n, const Term& term) {
  Wide sum = 0;
  for (int64_t begin = 0; begin < n; begin += 4096) {
    Wide block = 0;
    for (int64_t i = begin; i < std::min(begin + 4096, n); ++i) {
      block += term(i);
    }
    sum += block;
  }
  return sum / static_cast<Wide>(n);
}

// Numbers in [-1, 1), others for each seed.
template <typename T>
std::vector<T> Random(int64_t size, uint32_t seed) {
  std::vector<T> values(static_cast<size_t>(size));
  uint32_t state = seed;
  for (T& value : values) {
    state = state * 1664525 + 1013904223;
    value = Narrow<T>(state * 0x1p-31 - 1);
  }
  return values;
}

// One call with random operands.
template <typename T>
class Example {
 public:
  using A = AccumulationType<T>;

  Example(const Variant& v, const Shape& shape)
      : v_(v), shape_(shape), scale_(shape.SizeOf('s')) {
    for (const char kind : v.operands) {
      const auto seed = static_cast<uint32_t>(operands_.size());
      operands_.push_back(Random<T>(shape.shift + shape.SizeOf(kind), seed));
    }
    for (size_t i = 0; i < scale_.size(); ++i) scale_[i] = A(i % 7 + 1) / 7;
  }

  size_t operands() const { return operands_.size(); }
  std::vector<T>& operand(size_t i) { return operands_[i]; }
  const std::vector<T>& result(size_t i) const { return results_[i]; }
  Wide At(size_t result, int64_t i) const {
    return Value(results_[result][shape_.shift + i]);
  }

  void Run(const Platform& platform) {
    std::vector<std::vector<T>> operands = operands_;
    // Nobody writes beyond the end of a result.
    constexpr int kBeyond = 99;
    results_.clear();
    for (const char kind : v_.results) {
      results_.emplace_back(shape_.shift + shape_.SizeOf(kind) + 1,
                            Narrow<T>(kBeyond));
    }
    scale_result_.assign(scale_.size(), 0);
    const auto in_place = [&](size_t i) { return i < v_.in_place.size(); };
    const auto dtype = static_cast<XLA_FFI_DataType>(kDtypeOf<T>);
    CallFrame frame;
    for (size_t i = 0; i < v_.operands.size(); ++i) {
      const char kind = v_.operands[i];
      kind == 's' ? frame.Arg(scale_, shape_.DimsOf(kind))
                  : frame.Arg(dtype, operands[i].data() + shape_.shift,
                              shape_.DimsOf(kind));
    }
    for (size_t i = 0; i < v_.results.size(); ++i) {
      const char kind = v_.results[i];
      auto& place = in_place(i) ? operands[v_.in_place[i]] : results_[i];
      kind == 's'
          ? frame.Ret(scale_result_, shape_.DimsOf(kind))
          : frame.Ret(dtype, place.data() + shape_.shift, shape_.DimsOf(kind));
    }
    std::vector<uint8_t> workspace;
    if (v_.handler == kWeightBackward && platform.partial_sums > 0) {
      workspace.resize(platform.partial_sums * shape_.SizeOf('w') * sizeof(A));
      frame.Ret(workspace, {static_cast<int64_t>(workspace.size())});
    }
    if (v_.HasEps()) frame.Attr("eps", kEps);
    const testing::Status status =
        frame.Threads(platform.threads).Run(platform.handlers[v_.handler]);
    EXPECT_EQ(status.message, "");
    for (size_t i = 0; i < results_.size(); ++i) {
      EXPECT_EQ(Value(results_[i].back()), kBeyond);
      if (in_place(i)) results_[i] = operands[v_.in_place[i]];
    }
  }

  // Whether the results of Run() are what the formulas say.
  void ExpectRight() const {
    SCOPED_TRACE(::testing::Message()
                 << v_.operands << " to " << v_.results << ", "
                 << shape_.weights << " x " << shape_.rows << " rows of "
                 << shape_.n << ", shifted by " << shape_.shift);
    for (int64_t row = 0; row < shape_.weights * shape_.rows; ++row) {
      v_.handler == kForward ? ExpectForward(row) : ExpectBackward(row);
      if (::testing::Test::HasFailure()) return;
    }
    if (v_.handler == kWeightBackward) ExpectWeightBackward();
  }

 private:
  // Roundoffs: of T, and of what is computed in.
  static inline const Wide kU = UnitRoundoff<T>();
  static inline const Wide kA = UnitRoundoff<A>();

  // An element of an operand, or `otherwise` if there is no such operand.
  Wide In(size_t operand, int64_t i, Wide otherwise = 0) const {
    return operand < operands_.size()
               ? Value(operands_[operand][shape_.shift + i])
               : otherwise;
  }
  Wide Weight(size_t operand, int64_t row, int64_t i) const {
    return In(operand, row / shape_.rows * shape_.n + i, 1);
  }

  // Half the distance of the smallest numbers of a type of few exponents.
  static constexpr Wide kTiny = std::is_same_v<T, Float16> ? 0x1p-25L : 0;

  static void ExpectNear(Wide got, Wide want, Wide tolerance) {
    if (std::abs(got - want) <= tolerance + kTiny) return;  // not of NaN
    ADD_FAILURE() << got << " is not " << want;
  }

  void ExpectForward(int64_t row) const {
    const int64_t begin = row * shape_.n;
    const bool has_sum = operands_.size() > 2;
    const auto h = [&](int64_t i) {
      return has_sum ? At(1, begin + i) : In(0, begin + i);
    };
    const Wide power = Mean(shape_.n, [&](int64_t i) { return h(i) * h(i); });
    const Wide scale = 1 / std::sqrt(power + kEps);
    if (v_.results.back() == 's') {
      ExpectNear(scale_result_[row], scale, 4 * kA * scale);
    }
    for (int64_t i = 0; i < shape_.n; ++i) {
      if (has_sum) {
        const Wide sum = In(0, begin + i) + In(2, begin + i);
        ExpectNear(h(i), sum, kU * std::abs(sum));
      }
      const Wide y = h(i) * scale * Weight(1, row, i);
      ExpectNear(At(0, begin + i), y, (kU + 8 * kA) * std::abs(y));
    }
  }

  // Terms may cancel, and those of the mean: errors are relative to their
  // magnitudes.
  void ExpectBackward(int64_t row) const {
    const int64_t begin = row * shape_.n;
    const auto x = [&](int64_t i) { return In(0, begin + i); };
    const auto g = [&](int64_t i) {
      return In(1, begin + i) * Weight(3, row, i);
    };
    const auto mean = [&](const auto& term) { return Mean(shape_.n, term); };
    const Wide power = mean([&](int64_t i) { return x(i) * x(i); });
    const Wide dot = mean([&](int64_t i) { return x(i) * g(i); });
    const Wide terms = mean([&](int64_t i) { return std::abs(x(i) * g(i)); });
    const Wide s = v_.HasEps() ? 1 / std::sqrt(power + kEps) : scale_[row];
    for (int64_t i = 0; i < shape_.n; ++i) {
      const Wide ct_sum = In(4, begin + i), cubed = x(i) * s * s * s;
      const Wide dx = s * g(i) - cubed * dot + ct_sum;
      const Wide magnitude =
          std::abs(s * g(i)) + std::abs(cubed) * terms + std::abs(ct_sum);
      ExpectNear(At(0, begin + i), dx, kU * std::abs(dx) + 8 * kA * magnitude);
    }
  }

  void ExpectWeightBackward() const {
    for (int64_t i = 0; i < shape_.SizeOf('w'); ++i) {
      Wide dweight = 0, magnitude = 0;
      for (int64_t r = 0; r < shape_.rows; ++r) {
        const int64_t row = i / shape_.n * shape_.rows + r;
        const int64_t at = row * shape_.n + i % shape_.n;
        const Wide term = In(0, at) * scale_[row] * In(1, at);
        dweight += term;
        magnitude += std::abs(term);
      }
      ExpectNear(At(1, i), dweight,
                 kU * std::abs(dweight) + 8 * kA * magnitude);
    }
  }

  const Variant& v_;
  const Shape shape_;
  std::vector<std::vector<T>> operands_, results_;
  std::vector<A> scale_, scale_result_;
};

// Every variant of a shape.
template <typename T>
void ExpectRight(const Platform& platform, const Shape& shape) {
  for (const Variant& v : Variants()) {
    Example<T> example(v, shape);
    example.Run(platform);
    example.ExpectRight();
  }
}

}  // namespace xla_ffi_kit::rms_norm_testing

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_TESTING_H_
