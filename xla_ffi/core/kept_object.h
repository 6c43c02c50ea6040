// Objects that somebody else has loaded or made, such as a model, by name:
//
//   const mjModel* model = kit::kept_object<mjModel>("cart");
//
// In Python, xla_ffi_kit.keep("cart", model) gives the object its name. Other
// programs call the function XlaFfiKit_Keep that the library exports, before
// handlers run. Programs of XLA contain the name alone.

#ifndef XLA_FFI_CORE_KEPT_OBJECT_H_
#define XLA_FFI_CORE_KEPT_OBJECT_H_

#include <atomic>
#include <stdexcept>
#include <string>
#include <string_view>

namespace xla_ffi_kit {

// Hidden: each library has names of its own, which its loader gives it.
#pragma GCC visibility push(hidden)
namespace kept_object_internal {

// A list that only grows, so that handlers read it without a lock. An object
// that is kept again under its name comes before the older one.
struct Named {
  const std::string name;
  void* const object;
  const Named* next;
};
inline std::atomic<const Named*> first{nullptr};

inline void* Find(std::string_view name) {
  const Named* named = first.load(std::memory_order_acquire);
  while (named != nullptr && named->name != name) named = named->next;
  if (named != nullptr) return named->object;
  const std::string text(name);
  throw std::runtime_error("expected an object that this process keeps as '" +
                           text + "', got none: call xla_ffi_kit.keep('" +
                           text + "', object) first");
}

}  // namespace kept_object_internal
#pragma GCC visibility pop

// Returns the object that is kept as `name`, which must be a T. Any thread may
// ask, for each row of a call. Throws std::runtime_error if there is none: in a
// string that is the error of the call, and a handler of plain FFI must catch
// it.
template <typename T>
T* kept_object(std::string_view name) {
  return static_cast<T*>(kept_object_internal::Find(name));
}

}  // namespace xla_ffi_kit

namespace kit {
using xla_ffi_kit::kept_object;
}  // namespace kit

// Keeps an object under a name, as long as the process runs.
extern "C" __attribute__((visibility("default"), used)) inline void
XlaFfiKit_Keep(const char* name, void* object) {
  using xla_ffi_kit::kept_object_internal::Named;
  std::atomic<const Named*>& first = xla_ffi_kit::kept_object_internal::first;
  auto* const named = new Named{name, object, first.load()};
  while (!first.compare_exchange_weak(named->next, named)) {
  }
}

#endif  // XLA_FFI_CORE_KEPT_OBJECT_H_
