#include "xla_ffi/testing/failing_memory.h"

#include <sys/mman.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>

namespace {

std::atomic<bool> is_counting{false};
std::atomic<int64_t> first_failing, last_failing;
std::atomic<int64_t> allocations{0}, failed_bytes{-1};

bool Fails(size_t bytes) {
  if (!is_counting.load(std::memory_order_acquire)) return false;
  const int64_t number = allocations.fetch_add(1);
  if (number < first_failing || number >= last_failing) return false;
  int64_t none = -1;
  failed_bytes.compare_exchange_strong(none, static_cast<int64_t>(bytes));
  errno = ENOMEM;
  return true;
}

}  // namespace

// The linker takes these for malloc() and so on (--wrap in the BUILD file), and
// leaves those as they are to whoever else has replaced them: a sanitizer.
extern "C" {

void* __real_malloc(size_t bytes);
void* __real_calloc(size_t count, size_t bytes);
void* __real_realloc(void* memory, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void** memory, size_t alignment, size_t bytes);
void* __real_mmap(void* address, size_t bytes, int protection, int flags,
                  int file, off_t offset);
void __real_free(void* memory);

void* __wrap_malloc(size_t bytes) {
  return Fails(bytes) ? nullptr : __real_malloc(bytes);
}

void* __wrap_calloc(size_t count, size_t bytes) {
  return Fails(count * bytes) ? nullptr : __real_calloc(count, bytes);
}

void* __wrap_realloc(void* memory, size_t bytes) {
  return Fails(bytes) ? nullptr : __real_realloc(memory, bytes);
}

void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return Fails(bytes) ? nullptr : __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void** memory, size_t alignment, size_t bytes) {
  return Fails(bytes) ? ENOMEM
                      : __real_posix_memalign(memory, alignment, bytes);
}

void* __wrap_mmap(void* address, size_t bytes, int protection, int flags,
                  int file, off_t offset) {
  if (Fails(bytes)) return MAP_FAILED;
  return __real_mmap(address, bytes, protection, flags, file, offset);
}

void __wrap_free(void* memory) { __real_free(memory); }

}  // extern "C"

static void* New(size_t bytes, size_t alignment) noexcept {
  if (Fails(bytes)) return nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    return __real_malloc(std::max<size_t>(bytes, 1));
  }
  return __real_aligned_alloc(alignment,
                              (bytes + alignment) / alignment * alignment);
}

static void* NewOrThrow(size_t bytes, size_t alignment) {
  void* const memory = New(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// clang-format off
using std::align_val_t, std::nothrow_t;
void* operator new(size_t n) { return NewOrThrow(n, 1); }
void* operator new[](size_t n) { return NewOrThrow(n, 1); }
void* operator new(size_t n, align_val_t a) { return NewOrThrow(n, size_t(a)); }
void* operator new[](size_t n, align_val_t a) { return NewOrThrow(n, size_t(a)); }
void* operator new(size_t n, const nothrow_t&) noexcept { return New(n, 1); }
void* operator new[](size_t n, const nothrow_t&) noexcept { return New(n, 1); }
void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept { return New(n, size_t(a)); }
void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept { return New(n, size_t(a)); }
void operator delete(void* p) noexcept { __real_free(p); }
void operator delete[](void* p) noexcept { __real_free(p); }
void operator delete(void* p, size_t) noexcept { __real_free(p); }
void operator delete[](void* p, size_t) noexcept { __real_free(p); }
void operator delete(void* p, align_val_t) noexcept { __real_free(p); }
void operator delete[](void* p, align_val_t) noexcept { __real_free(p); }
void operator delete(void* p, size_t, align_val_t) noexcept { __real_free(p); }
void operator delete[](void* p, size_t, align_val_t) noexcept { __real_free(p); }
void operator delete(void* p, const nothrow_t&) noexcept { __real_free(p); }
void operator delete[](void* p, const nothrow_t&) noexcept { __real_free(p); }
// clang-format on

namespace xla_ffi_kit::testing {

FailingMemory::FailingMemory(int64_t first, int64_t last) {
  first_failing = first;
  last_failing = last;
  allocations = 0;
  failed_bytes = -1;
  is_counting.store(true, std::memory_order_release);
}

FailingMemory::~FailingMemory() { is_counting = false; }

int64_t CountedAllocations() { return allocations; }

int64_t FailedBytes() { return failed_bytes; }

}  // namespace xla_ffi_kit::testing
