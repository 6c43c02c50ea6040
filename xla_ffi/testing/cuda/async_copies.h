// The asynchronous copies of one emulated thread.

#ifndef XLA_FFI_TESTING_CUDA_ASYNC_COPIES_H_
#define XLA_FFI_TESTING_CUDA_ASYNC_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace xla_ffi_kit::testing {

// A copy happens as late as it may: when the thread waits for its group. Until
// then its destination holds NaNs, so that whoever does not wait sees them.
class AsyncCopies {
 public:
  void Clear() {
    copies_.clear();
    groups_ = 0;
  }
  void Begin(void* to, const void* from, size_t bytes) {
    std::memset(to, 0xff, bytes);
    copies_.push_back({to, from, bytes, groups_});
  }
  // Makes a group of the copies that have begun since the last call.
  void Commit() { ++groups_; }
  // All groups but the last `prior` are done.
  void Wait(size_t prior) {
    size_t left = 0;
    for (const Copy& copy : copies_) {
      if (copy.group + prior < groups_) {
        std::memcpy(copy.to, copy.from, copy.bytes);
      } else {
        copies_[left++] = copy;
      }
    }
    copies_.resize(left);
  }
  bool AreDone() const { return copies_.empty(); }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    uint64_t group;
  };
  std::vector<Copy> copies_;
  uint64_t groups_ = 0;  // that are committed
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_CUDA_ASYNC_COPIES_H_
