// The CUDA kernel, run by the emulator and compared with the CPU's.

#include "xla_ffi/ops/modular_add/modular_add_cuda.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/modular_add/modular_add.h"
#include "xla_ffi/ops/modular_add/modular_add_handler.h"
#include "xla_ffi/ops/modular_add/modular_add_pack.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

template <typename T>
void ExpectLikeCpu(int64_t n, int64_t m, int64_t rows, int64_t offset) {
  std::vector<T> b(rows * n + offset), c(rows * m), expected(rows * m);
  for (size_t i = 0; i < b.size(); ++i) b[i] = T(static_cast<float>(i % 91));
  for (size_t i = 0; i < c.size(); ++i) c[i] = T(static_cast<float>(i % 35));
  const T* b_rows = b.data() + offset;
  for (int64_t r = 0; r < rows; ++r) {
    ModularAdd(b_rows + r * n, n, c.data() + r * m, 0, m,
               expected.data() + r * m);
  }
  // The result too begins with a pack, or does not.
  for (const int64_t offset_a : {0, 1}) {
    std::vector<T> a(static_cast<size_t>(offset_a + rows * m));
    ASSERT_EQ(ModularAddCuda(b_rows, n, c.data(), m, rows, a.data() + offset_a,
                             nullptr),
              cudaSuccess);
    EXPECT_EQ(std::memcmp(a.data() + offset_a, expected.data(),
                          expected.size() * sizeof(T)),
              0)
        << n << ", " << m << ", " << rows << ", " << offset;
  }
}

TEST(ModularAddCudaTest, EveryShapeIsLikeTheCpu) {
  for (const int64_t n : {1, 3, 4, 16, 33, 128}) {
    for (const int64_t m : {1, 2, 5, 16, 64, 129, 256}) {
      for (const int64_t rows : {1, 2, 7}) {
        ExpectLikeCpu<BFloat16>(n, m, rows, 0);
        ExpectLikeCpu<float>(n, m, rows, 0);
        ExpectLikeCpu<float>(n, m, rows, 1);
        ExpectLikeCpu<double>(n, m, rows, 0);
        ExpectLikeCpu<uint8_t>(n, m, rows, 3);
        ExpectLikeCpu<int16_t>(n, m, rows, 1);
      }
    }
  }
}

TEST(ModularAddCudaTest, WholePacksOfBWhereTheyFit) {
  alignas(kPackBytes) float b[8] = {};
  EXPECT_TRUE(MakeModularAddPack(b, 4, b, 8, b, 4).packs_of_b);
  EXPECT_FALSE(MakeModularAddPack(b, 6, b, 8, b, 4).packs_of_b);
  EXPECT_FALSE(MakeModularAddPack(b, 4, b, 6, b, 4).packs_of_b);
  EXPECT_FALSE(MakeModularAddPack(b + 1, 4, b, 8, b, 4).packs_of_b);
}

TEST(ModularAddCudaTest, DividesBeyond32Bits) {
  const uint64_t large = (uint64_t{1} << 40) + 12345;
  for (const uint64_t b : {uint64_t{1}, uint64_t{7}, uint64_t{1} << 33}) {
    for (const uint64_t a : {uint64_t{5}, uint64_t{0xffffffff}, large}) {
      EXPECT_EQ(Divide(a, b).quotient, a / b);
      EXPECT_EQ(Divide(a, b).remainder, a % b);
    }
  }
}

TEST(ModularAddCudaHandlerTest, LaunchesTheKernel) {
  std::vector<int32_t> b = {1, 2}, c = {10, 20, 30}, a(3);
  const testing::Status status =
      testing::CallFrame().Arg(b, {2}).Arg(c, {3}).Ret(a, {3}).Run(
          XlaFfiKitModularAddCuda);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(a, (std::vector<int32_t>{11, 22, 31}));
}

}  // namespace
}  // namespace xla_ffi_kit
