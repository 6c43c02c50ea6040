// The CUDA handlers on the emulator, with the call frames of the CPU's: each
// operand, result and attribute arrives where it belongs.

#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::Status;

struct Handlers {
  XLA_FFI_Handler* cpu;
  XLA_FFI_Handler* cuda;
  // A letter for each buffer: x for one like x, w like the weight, s like the
  // scale.
  std::string operands, results;
  bool has_eps;
};

const std::vector<Handlers>& AllHandlers() {
  static const std::vector<Handlers> all = {
      {XlaFfiKitRmsNormCpu, XlaFfiKitRmsNormCuda, "x", "x", true},
      {XlaFfiKitRmsNormFwdCpu, XlaFfiKitRmsNormFwdCuda, "x", "xs", true},
      {XlaFfiKitRmsNormWeightCpu, XlaFfiKitRmsNormWeightCuda, "xw", "x", true},
      {XlaFfiKitRmsNormWeightFwdCpu, XlaFfiKitRmsNormWeightFwdCuda, "xw", "xs",
       true},
      {XlaFfiKitRmsNormWeightResidualCpu, XlaFfiKitRmsNormWeightResidualCuda,
       "xwx", "xx", true},
      {XlaFfiKitRmsNormWeightResidualFwdCpu,
       XlaFfiKitRmsNormWeightResidualFwdCuda, "xwx", "xxs", true},
      {XlaFfiKitRmsNormGradCpu, XlaFfiKitRmsNormGradCuda, "xx", "x", true},
      {XlaFfiKitRmsNormBwdCpu, XlaFfiKitRmsNormBwdCuda, "sxx", "x", false},
      {XlaFfiKitRmsNormWeightBwdCpu, XlaFfiKitRmsNormWeightBwdCuda, "sxwx",
       "xw", false},
      {XlaFfiKitRmsNormWeightResidualBwdCpu,
       XlaFfiKitRmsNormWeightResidualBwdCuda, "sxwxx", "xw", false},
  };
  return all;
}

template <typename T>
class RmsNormCudaValuesTest : public ::testing::Test {
 protected:
  using A = AccumulationType<T>;
  static constexpr int64_t kN = 5;

  // A weight for each of the first axis' two parts.
  static CallFrame::Dims DimsOf(char kind) {
    if (kind == 's') return {2, 3};
    if (kind == 'w') return {2, kN};
    return {2, 3, kN};
  }
  static int64_t SizeOf(char kind) {
    int64_t size = 1;
    for (const int64_t length : DimsOf(kind)) size *= length;
    return size;
  }

  struct Results {
    std::vector<std::vector<T>> values;
    std::vector<A> scale = std::vector<A>(6);
  };

  static Results Run(const Handlers& handlers, XLA_FFI_Handler* handler) {
    std::vector<std::vector<T>> operands;
    std::vector<A> scale;
    for (int i = 1; i <= 6; ++i) scale.push_back(A(i) / 7);
    for (const char kind : handlers.operands) {
      const auto seed = static_cast<uint32_t>(operands.size());
      operands.push_back(testing::RandomNormal<T>(SizeOf(kind), seed));
    }
    Results results;
    for (const char kind : handlers.results) {
      results.values.emplace_back(SizeOf(kind));
    }
    CallFrame frame;
    for (size_t i = 0; i < operands.size(); ++i) {
      const char kind = handlers.operands[i];
      kind == 's' ? frame.Arg(scale, DimsOf(kind))
                  : frame.Arg(operands[i], DimsOf(kind));
    }
    for (size_t i = 0; i < results.values.size(); ++i) {
      const char kind = handlers.results[i];
      kind == 's' ? frame.Ret(results.scale, DimsOf(kind))
                  : frame.Ret(results.values[i], DimsOf(kind));
    }
    if (handlers.has_eps) frame.Attr("eps", 0.25);
    const Status status = frame.Scratch(1 << 20).Run(handler);
    EXPECT_TRUE(status.ok()) << status.message;
    return results;
  }
};

using Types = ::testing::Types<Float16, BFloat16, float, double,
                               std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RmsNormCudaValuesTest, Types);

TYPED_TEST(RmsNormCudaValuesTest, EveryHandlerGivesTheCpusResults) {
  constexpr double kUnits = 8;
  for (const Handlers& handlers : AllHandlers()) {
    const auto cpu = this->Run(handlers, handlers.cpu);
    const auto cuda = this->Run(handlers, handlers.cuda);
    SCOPED_TRACE(handlers.operands + " to " + handlers.results +
                 (handlers.has_eps ? " with eps" : ""));
    for (size_t i = 0; i < cpu.values.size(); ++i) {
      if (handlers.results[i] == 's') continue;
      const double magnitude = testing::Largest(cpu.values[i]);
      EXPECT_GT(magnitude, 0);
      EXPECT_LT(testing::Distance(cuda.values[i], cpu.values[i], magnitude),
                kUnits)
          << "result " << i;
    }
    EXPECT_LT(testing::Distance(cuda.scale, cpu.scale, 1), kUnits);
  }
}

}  // namespace
}  // namespace xla_ffi_kit
