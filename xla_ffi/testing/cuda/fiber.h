// Threads that take turns on one thread of the CPU.

#ifndef XLA_FFI_TESTING_CUDA_FIBER_H_
#define XLA_FFI_TESTING_CUDA_FIBER_H_

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <memory>

namespace xla_ffi_kit::testing {

// Runs on the thread that made it, and no other.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next Resume() calls run(argument), also if the last run is not done.
  void Start(void (*run)(void*), void* argument);
  // Until the fiber calls Pause() or is done.
  void Resume();
  bool is_done() const { return is_done_; }

  // Called in the fiber.
  void Pause();

 private:
  static void Main(unsigned high, unsigned low);
  void MakeContext();

  std::unique_ptr<char[]> stack_;
  ucontext_t own_, caller_;
  jmp_buf own_jump_, caller_jump_;
  bool is_fresh_ = true;  // has a context, and has not run in it
  void (*run_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool is_done_ = true;
  // The sanitizers' data; they have to know whose stack is in use.
  void* own_fake_stack_ = nullptr;
  [[maybe_unused]] void* caller_fake_stack_ = nullptr;
  [[maybe_unused]] const void* caller_stack_ = nullptr;
  [[maybe_unused]] size_t caller_stack_size_ = 0;
  [[maybe_unused]] void* own_tsan_ = nullptr;
  [[maybe_unused]] void* caller_tsan_ = nullptr;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_CUDA_FIBER_H_
