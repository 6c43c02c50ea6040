#include "xla_ffi/testing/counted_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"

namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// These replace glibc's functions, for libstdc++'s `operator new` too.
extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);

static void* Counted(void* memory) {
  const auto bytes = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t live = live_bytes += bytes;
  int64_t peak = peak_bytes.load();
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return memory;
}

static void Uncount(void* memory) {
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
}

void* malloc(size_t bytes) { return Counted(__libc_malloc(bytes)); }

void* calloc(size_t count, size_t bytes) {
  return Counted(__libc_calloc(count, bytes));
}

void* realloc(void* memory, size_t bytes) {
  Uncount(memory);
  return Counted(__libc_realloc(memory, bytes));
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return Counted(__libc_memalign(alignment, bytes));
}

void* memalign(size_t alignment, size_t bytes) {
  return Counted(__libc_memalign(alignment, bytes));
}

void free(void* memory) {
  Uncount(memory);
  __libc_free(memory);
}

}  // extern "C"

#endif  // no sanitizer

namespace xla_ffi_kit::testing {

PeakMemory::PeakMemory() : before_(live_bytes) { peak_bytes = before_; }

int64_t PeakMemory::bytes() const { return peak_bytes - before_; }

int64_t PeakOfCall(XLA_FFI_Handler* handler, CallFrame frame) {
  const PeakMemory peak;
  EXPECT_EQ(frame.Run(handler).message, "");
  return peak.bytes();
}

}  // namespace xla_ffi_kit::testing
