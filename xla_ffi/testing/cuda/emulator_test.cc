#include "xla_ffi/testing/cuda/emulator.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/cuda/cuda_pipeline_primitives.h"
#include "xla_ffi/testing/cuda/cuda_runtime.h"

namespace xla_ffi_kit {

// What a kernel leaves out, in tests that the emulator notices it.
enum class Fault {
  kNone,
  kSync,
  kShuffle,
  kWait,
  kBounds,
  // A cluster's last barrier, what waits there, or between two arrivals.
  kLastBarrier,
  kLastWait,
  kWaitBetween,
};

// out[block] is the sum of the block's part of `in`.
__global__ void BlockSums(const int* in, int* out, Fault fault) {
  extern __shared__ uint4 dynamic[];
  __shared__ int of_warps[32];
  auto* values = reinterpret_cast<int*>(dynamic);
  const unsigned thread = threadIdx.x;
  // Each thread takes a number that another one has loaded.
  values[thread] = in[blockIdx.x * blockDim.x + thread];
  if (fault == Fault::kBounds) values[blockDim.x] = 1;
  if (fault != Fault::kSync) __syncthreads();
  int sum = values[blockDim.x - 1 - thread];
  for (int offset = 16; offset > (fault == Fault::kShuffle ? 1 : 0);
       offset /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, offset);
  }
  of_warps[thread / 32] = sum;
  if (fault != Fault::kWait || thread > 0) __syncthreads();
  if (thread != 0) return;
  out[blockIdx.x] = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) out[blockIdx.x] += of_warps[w];
}

enum class CopyFault { kNone, kCommit, kWait, kPrior, kNeverWaits, kBounds };

// Each thread copies two numbers, one after the other, and adds them up.
__global__ void AddCopies(const float* in, float* out, CopyFault fault) {
  extern __shared__ uint4 dynamic[];
  auto* kept = reinterpret_cast<float*>(dynamic);
  const unsigned i = threadIdx.x, threads = blockDim.x;
  if (fault == CopyFault::kBounds) kept += 2 * threads;
  __pipeline_memcpy_async(kept + i, in + i, sizeof(float));
  if (fault != CopyFault::kCommit) __pipeline_commit();
  __pipeline_memcpy_async(kept + threads + i, in + threads + i, sizeof(float));
  __pipeline_commit();
  if (fault != CopyFault::kWait) {
    __pipeline_wait_prior(fault == CopyFault::kPrior ? 2 : 1);
  }
  out[i] = kept[i];
  if (fault == CopyFault::kNeverWaits) return;
  __pipeline_wait_prior(0);
  out[i] += kept[threads + i];
}

namespace {

using testing::Device;

class EmulatorTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { Device().is_backwards = GetParam(); }
  void TearDown() override { Device() = {}; }
};
INSTANTIATE_TEST_SUITE_P(BothOrders, EmulatorTest, ::testing::Bool());

cudaLaunchConfig_t Config(int blocks, int threads, size_t shared) {
  cudaLaunchConfig_t config;
  config.gridDim.x = blocks;
  config.blockDim.x = threads;
  config.dynamicSmemBytes = shared;
  return config;
}

struct Sums {
  cudaError_t status;
  std::vector<int> got, expected;
};

Sums RunBlockSums(Fault fault) {
  constexpr int kBlocks = 3, kThreads = 96;
  std::vector<int> in(kBlocks * kThreads);
  std::iota(in.begin(), in.end(), -20);
  Sums sums = {cudaSuccess, std::vector<int>(kBlocks), {}};
  for (auto it = in.begin(); it != in.end(); it += kThreads) {
    sums.expected.push_back(std::accumulate(it, it + kThreads, 0));
  }
  const auto config = Config(kBlocks, kThreads, kThreads * sizeof(int));
  sums.status =
      cudaLaunchKernelEx(&config, BlockSums, in.data(), sums.got.data(), fault);
  return sums;
}

TEST_P(EmulatorTest, ThreadsOfABlockWorkTogether) {
  const Sums sums = RunBlockSums(Fault::kNone);
  EXPECT_EQ(sums.status, cudaSuccess);
  EXPECT_EQ(sums.got, sums.expected);
}

TEST_P(EmulatorTest, AMissingStepIsSeen) {
  for (const Fault fault : {Fault::kSync, Fault::kShuffle}) {
    const Sums sums = RunBlockSums(fault);
    EXPECT_EQ(sums.status, cudaSuccess);
    EXPECT_NE(sums.got, sums.expected);
  }
}

TEST_P(EmulatorTest, ThreadsThatDoNotComeAreAnError) {
  EXPECT_NE(RunBlockSums(Fault::kWait).status, cudaSuccess);
}

TEST_P(EmulatorTest, WritesBeyondSharedMemoryAreAnError) {
  EXPECT_NE(RunBlockSums(Fault::kBounds).status, cudaSuccess);
}

__global__ void Shuffle(bool in_different_places) {
  if (in_different_places && threadIdx.x % 2 == 0) {
    __shfl_xor_sync(0xffffffff, 1, 1);
  } else {
    __shfl_xor_sync(0xffffffff, 1, 2);
  }
}

TEST_P(EmulatorTest, LanesInDifferentShufflesAreAnError) {
  const auto config = Config(1, 64, 0);
  EXPECT_EQ(cudaLaunchKernelEx(&config, Shuffle, false), cudaSuccess);
  EXPECT_NE(cudaLaunchKernelEx(&config, Shuffle, true), cudaSuccess);
  const auto half_a_warp = Config(1, 16, 0);
  EXPECT_NE(cudaLaunchKernelEx(&half_a_warp, Shuffle, false), cudaSuccess);
}

enum class GroupFault { kNone, kSync, kStranger, kAbsent };

// Threads go two ways; each finds who went its own, and reverses the numbers of
// these. The first way is a warp's first lanes.
__global__ void ReverseInGroups(int* numbers, unsigned* groups, unsigned first,
                                GroupFault fault) {
  __shared__ int kept[32];
  const unsigned lane = threadIdx.x;
  if (lane >= 30) return;
  const auto reverse = [&](unsigned begin, unsigned end, unsigned group) {
    groups[lane] = group;
    if (fault == GroupFault::kAbsent) group |= 1u << 31;
    if (fault == GroupFault::kStranger) group = 2;
    kept[lane] = numbers[lane];
    if (fault != GroupFault::kSync) __syncwarp(group);
    numbers[lane] = kept[begin + end - 1 - lane];
  };
  if (lane < first) {
    reverse(0, first, __activemask());
  } else {
    reverse(first, 30, __activemask());
  }
}

TEST_P(EmulatorTest, LanesAtOnePlaceAreAGroup) {
  for (const GroupFault fault : {GroupFault::kNone, GroupFault::kSync,
                                 GroupFault::kStranger, GroupFault::kAbsent}) {
    std::vector<int> numbers(30), expected(30);
    // Others each time, as shared memory still has those of before.
    const int first = 100 * static_cast<int>(fault);
    std::iota(numbers.begin(), numbers.end(), first);
    for (int i = 0; i < 30; ++i) expected[i] = first + (i < 10 ? 9 : 39) - i;
    std::vector<unsigned> groups(30);
    const auto config = Config(1, 32, 0);
    const bool is_done =
        cudaLaunchKernelEx(&config, ReverseInGroups, numbers.data(),
                           groups.data(), 10u, fault) == cudaSuccess;
    EXPECT_EQ(is_done, fault <= GroupFault::kSync);
    if (!is_done) continue;
    EXPECT_EQ(numbers == expected, fault == GroupFault::kNone);
    for (unsigned i = 0; i < 30; ++i) {
      EXPECT_EQ(groups[i], i < 10 ? 0x3ffu : 0x3ffffc00u);
    }
  }
}

// Every block stores the sum of its cluster's block numbers.
__global__ void ClusterSums(int* out, Fault fault) {
  __shared__ int number;
  if (threadIdx.x == 0) number = static_cast<int>(blockIdx.x);
  if (fault != Fault::kSync) {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
  }
  int sum = 0;
  for (unsigned rank = 0; rank < __clusterSizeInBlocks(); ++rank) {
    sum += *static_cast<int*>(__cluster_map_shared_rank(&number, rank));
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
  if (fault == Fault::kWait && __clusterRelativeBlockRank() == 1) return;
  if (fault == Fault::kLastBarrier) return;
  __cluster_barrier_arrive();
  if (fault == Fault::kLastWait) return;
  if (fault == Fault::kWaitBetween) __cluster_barrier_arrive();
  __cluster_barrier_wait();
}

cudaError_t RunClusterSums(unsigned cluster, std::vector<int>* out,
                           Fault fault = Fault::kNone) {
  auto config = Config(static_cast<int>(out->size()), 64, 0);
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, ClusterSums, out->data(), fault);
}

TEST_P(EmulatorTest, BlocksOfAClusterReadEachOthersMemory) {
  std::vector<int> sums(6);
  EXPECT_EQ(RunClusterSums(2, &sums), cudaSuccess);
  EXPECT_EQ(sums, (std::vector<int>{1, 1, 5, 5, 9, 9}));
  EXPECT_EQ(RunClusterSums(1, &sums), cudaSuccess);
  EXPECT_EQ(sums, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST_P(EmulatorTest, BlocksOfAClusterThatDoNotWaitAreAnError) {
  for (const Fault fault : {Fault::kSync, Fault::kWait, Fault::kLastBarrier,
                            Fault::kLastWait, Fault::kWaitBetween}) {
    std::vector<int> sums(6);
    EXPECT_NE(RunClusterSums(2, &sums, fault), cudaSuccess)
        << static_cast<int>(fault);
  }
}

TEST_P(EmulatorTest, CopiesArriveWhenTheyAreWaitedFor) {
  constexpr int kThreads = 64;
  std::vector<float> in(2 * kThreads), expected;
  std::iota(in.begin(), in.end(), 1.0F);
  for (int i = 0; i < kThreads; ++i) expected.push_back(in[i] + in[i + 64]);
  const auto config = Config(1, kThreads, in.size() * sizeof(float));
  const auto run = [&](CopyFault fault) {
    std::vector<float> out(kThreads);
    const cudaError_t status =
        cudaLaunchKernelEx(&config, AddCopies, in.data(), out.data(), fault);
    return status == cudaSuccess ? out : std::vector<float>();
  };
  EXPECT_EQ(run(CopyFault::kNone), expected);
  for (const CopyFault fault :
       {CopyFault::kCommit, CopyFault::kWait, CopyFault::kPrior}) {
    const std::vector<float> got = run(fault);
    ASSERT_FALSE(got.empty());
    for (const float value : got) EXPECT_TRUE(std::isnan(value));
  }
  EXPECT_TRUE(run(CopyFault::kNeverWaits).empty());
  EXPECT_TRUE(run(CopyFault::kBounds).empty());
}

__global__ void Early(bool waits) {
  if (waits || threadIdx.x > 0) cudaGridDependencySynchronize();
}

TEST_P(EmulatorTest, AnEarlyLaunchWaitsForTheGridBefore) {
  auto config = Config(2, 32, 0);
  EXPECT_EQ(cudaLaunchKernelEx(&config, Early, false), cudaSuccess);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  EXPECT_EQ(cudaLaunchKernelEx(&config, Early, true), cudaSuccess);
  EXPECT_TRUE(testing::Launches().back().is_early);
  EXPECT_NE(cudaLaunchKernelEx(&config, Early, false), cudaSuccess);
  Device().major = 8;
  EXPECT_NE(cudaLaunchKernelEx(&config, Early, true), cudaSuccess);
}

TEST_P(EmulatorTest, LaunchesBeyondTheDevicesLimitsFail) {
  std::vector<int> sums(32);
  EXPECT_NE(RunClusterSums(5, &sums), cudaSuccess) << "not a multiple";
  EXPECT_NE(RunClusterSums(16, &sums), cudaSuccess) << "not portable";
  cudaFuncSetAttribute(ClusterSums,
                       cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  EXPECT_EQ(RunClusterSums(16, &sums), cudaSuccess);
  cudaFuncSetAttribute(ClusterSums,
                       cudaFuncAttributeNonPortableClusterSizeAllowed, 0);
  Device().major = 8;
  EXPECT_NE(RunClusterSums(2, &sums), cudaSuccess);
  // A part of this is for the memory that the kernel declares.
  const auto shared = Config(1, 32, 48 * 1024);
  EXPECT_NE(cudaLaunchKernelEx(&shared, Shuffle, false), cudaSuccess);
  EXPECT_NE(
      cudaFuncSetAttribute(Shuffle, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(Device().max_shared_bytes)),
      cudaSuccess);
  const auto threads = Config(1, 1056, 0);
  EXPECT_NE(cudaLaunchKernelEx(&threads, Shuffle, false), cudaSuccess);
}

}  // namespace
}  // namespace xla_ffi_kit
