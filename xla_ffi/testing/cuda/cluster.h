// A cluster of the emulator's blocks.

#ifndef XLA_FFI_TESTING_CUDA_CLUSTER_H_
#define XLA_FFI_TESTING_CUDA_CLUSTER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace xla_ffi_kit::testing {

// The blocks of a cluster, each on a thread of the CPU.
class Cluster {
 public:
  explicit Cluster(int64_t blocks)
      : blocks_(blocks), shared_(static_cast<size_t>(blocks)) {}

  // The thread's block is the one of `rank`.
  void Enter(unsigned rank) {
    shared_[rank] = static_cast<char*>(__builtin_thread_pointer());
  }
  void* SharedOfRank(const void* p, unsigned rank) {
    const auto* own = static_cast<char*>(__builtin_thread_pointer());
    return shared_.at(rank) + (static_cast<const char*>(p) - own);
  }

  void Arrive() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (++arrived_ == blocks_) {
      arrived_ = 0;
      ++rounds_;
      changed_.notify_all();
    }
  }
  // How often all blocks have arrived.
  uint64_t Rounds() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return rounds_;
  }
  // Until all blocks have arrived so often; false if one ends before.
  bool Wait(uint64_t rounds) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return rounds_ >= rounds || ended_ > 0; });
    return rounds_ >= rounds;
  }
  // All blocks end here together, so that their shared memory lives as long.
  void End() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t generation = generation_;
    if (++ended_ == blocks_) {
      arrived_ = ended_ = 0;
      rounds_ = 0;
      ++generation_;
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return generation_ != generation; });
  }

 private:
  const int64_t blocks_;
  std::vector<char*> shared_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t arrived_ = 0, ended_ = 0;
  uint64_t rounds_ = 0, generation_ = 0;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_CUDA_CLUSTER_H_
