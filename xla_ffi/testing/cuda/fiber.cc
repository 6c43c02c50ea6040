// Jumps go from one stack to another, which a checked longjmp() would refuse.
#undef _FORTIFY_SOURCE

#include "xla_ffi/testing/cuda/fiber.h"

#include <cstdint>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace xla_ffi_kit::testing {
namespace {

constexpr size_t kStackBytes = 128 * 1024;

// The sanitizers know swapcontext(). It asks the kernel for the signal mask
// each time, and so takes ten times as long as a jump.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void Switch(ucontext_t* from, jmp_buf&, ucontext_t* to, jmp_buf&, bool) {
  if (swapcontext(from, to) != 0) std::abort();
}
#else
void Switch(ucontext_t*, jmp_buf& from, ucontext_t* to, jmp_buf& to_jump,
            bool is_fresh) {
  if (_setjmp(from) != 0) return;
  if (is_fresh) setcontext(to);
  _longjmp(to_jump, 1);
}
#endif

}  // namespace

Fiber::Fiber() : stack_(new char[kStackBytes]) { MakeContext(); }

Fiber::~Fiber() {
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(own_tsan_);
#endif
}

void Fiber::MakeContext() {
  if (getcontext(&own_) != 0) std::abort();
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = nullptr;
  // Its arguments are ints.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&own_, reinterpret_cast<void (*)()>(&Main), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  is_fresh_ = true;
  own_fake_stack_ = nullptr;
#ifdef __SANITIZE_THREAD__
  if (own_tsan_ != nullptr) __tsan_destroy_fiber(own_tsan_);
  own_tsan_ = __tsan_create_fiber(0);
#endif
}

void Fiber::Start(void (*run)(void*), void* argument) {
  if (!is_done_) MakeContext();
  run_ = run;
  argument_ = argument;
  is_done_ = false;
}

void Fiber::Resume() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&caller_fake_stack_, stack_.get(),
                                 kStackBytes);
#endif
#ifdef __SANITIZE_THREAD__
  caller_tsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(own_tsan_, 0);
#endif
  const bool is_fresh = is_fresh_;
  is_fresh_ = false;
  Switch(&caller_, caller_jump_, &own_, own_jump_, is_fresh);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::Pause() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&own_fake_stack_, caller_stack_,
                                 caller_stack_size_);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(caller_tsan_, 0);
#endif
  Switch(&own_, own_jump_, &caller_, caller_jump_, false);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(own_fake_stack_, &caller_stack_,
                                  &caller_stack_size_);
#endif
}

void Fiber::Main(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>((uintptr_t{high} << 32) | low);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack_,
                                  &self->caller_stack_size_);
#endif
  while (true) {
    self->run_(self->argument_);
    self->is_done_ = true;
    self->Pause();
  }
}

}  // namespace xla_ffi_kit::testing
