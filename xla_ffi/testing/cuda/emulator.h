// Runs the blocks and threads of CUDA kernels on the CPU, so that tests see
// what the true kernels compute; cuda_runtime.h is what kernels include.
//
// A block's threads take turns: a warp runs until it waits for another one, and
// a thread until it waits for its warp. In this order, or backwards, one that
// should have waited and did not reads what is not there yet, or no more. A
// launch fails, with a line on stderr, if its shape is beyond the device's
// limits, if threads wait for others that do not come, if lanes of a warp meet
// in different shuffles or wait for lanes that are not them, if a block writes
// beyond its dynamic shared memory, or if a thread asks for that of another
// block before its cluster has met once, or ends before it has met again.
// Dynamic shared memory holds NaNs at first, other shared memory what the block
// before has left there.
//
// An asynchronous copy happens when its thread waits for it, and its place
// holds NaNs until then; a launch fails if a thread ends before it has waited.
// An early launch fails if a thread ends without having waited for the grid
// before.
//
// What a kernel includes as "cuda_runtime.h" is a part of CUDA: one dimension,
// and the functions of the kit's own kernels.
//
// The emulator does not show what the threads of a GPU do at the same time, its
// memory model, the use of registers, __launch_bounds__, or speed.

#ifndef XLA_FFI_TESTING_CUDA_EMULATOR_H_
#define XLA_FFI_TESTING_CUDA_EMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): CUDA's name.
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace xla_ffi_kit {

namespace testing {

// The properties that the device reports.
struct EmulatedDevice {
  int major = 9;  // compute capability
  int processors = 8;
  int blocks_per_processor = 1;
  int64_t max_shared_bytes = 227 * 1024;  // of a block, at most this
  bool is_backwards = false;              // the order of threads
};
EmulatedDevice& Device();

// The values of is_backwards that tests of many cases run with. A sanitizer
// makes the emulator ten times slower, and what it looks for is there in any
// order.
inline std::vector<bool> Orders() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {false};
#else
  return {false, true};
#endif
}

// The static shared memory of every kernel. It is at least as much as that of
// any kernel of the kit, because nothing counts what they declare.
inline constexpr int64_t kOtherSharedBytes = 2048;

// The limits that cudaFuncSetAttribute() has set for a kernel.
struct KernelLimits {
  int64_t shared_bytes = 48 * 1024 - kOtherSharedBytes;  // dynamic
  bool large_clusters = false;  // of more than 8 blocks
};
KernelLimits& LimitsOf(const void* kernel);

struct Grid {
  int64_t blocks = 1;
  int64_t threads = 1;  // of a block
  int64_t shared_bytes = 0;
  int64_t cluster = 1;    // blocks of one
  bool is_early = false;  // may begin before the grid before it ends
};

// All launches, in their order; tests may clear it.
std::vector<Grid>& Launches();

// Runs `body` for each thread; whether all went well.
bool RunGrid(const Grid& grid, const void* kernel,
             const std::function<void()>& body);

// --- In a kernel -------------------------------------------------------------

struct Location {
  unsigned thread = 0, block = 0;    // threadIdx.x, blockIdx.x
  unsigned threads = 1, blocks = 1;  // blockDim.x, gridDim.x
  unsigned rank = 0, cluster = 1;    // of the block in its cluster
};
const Location& Here();

void SyncBlock();
// Until the lanes of `mask`, this one among them, have all come.
void SyncWarp(unsigned mask);
// The lanes of the warp that are at the same place in the kernel: those that
// get there before every lane of the warp waits. A GPU may give fewer.
unsigned ActiveMask(const void* place);
// The value of lane ^ lane_mask.
uint64_t ExchangeInWarp(unsigned mask, uint64_t bits, int lane_mask);
void ArriveAtCluster();
void WaitForCluster();
// Returns where the block of that rank has what this one has at `p`.
void* SharedOfRank(const void* p, unsigned rank);
// Copies to dynamic shared memory, which happen as late as they may.
void BeginCopy(void* to, const void* from, size_t bytes);
void CommitCopies();
void WaitForCopies(size_t prior);
void WaitForGridBefore();

}  // namespace testing

// The dynamic shared memory of a kernel in this namespace that calls it so.
extern thread_local uint4 dynamic[];

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_TESTING_CUDA_EMULATOR_H_
