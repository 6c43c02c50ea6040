// The kit's environment variables, read once: when the program or the library
// that contains this is loaded.
//
// They are not read when they are needed, in the middle of a program, because
// setenv() in another thread moves the environment and frees what getenv() is
// reading, which crashes the program.

#ifndef XLA_FFI_CORE_ENVIRONMENT_H_
#define XLA_FFI_CORE_ENVIRONMENT_H_

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace xla_ffi_kit {

// The most threads that a call of a handler may use, 1 or more. Anything else,
// and its absence, leaves it to XLA's pool.
inline constexpr char kThreadsVariable[] = "XLA_FFI_KIT_THREADS";

// "0" switches the advice of huge pages off.
inline constexpr char kHugePagesVariable[] = "XLA_FFI_KIT_HUGE_PAGES";

namespace environment_internal {

// Returns the meaning of a variable's value, which is null if it is not set.
inline int64_t ToThreadLimit(const char* value) {
  const int64_t limit = value == nullptr ? 0 : std::strtoll(value, nullptr, 10);
  return limit < 1 ? std::numeric_limits<int64_t>::max() : limit;
}
inline bool IsSwitchedOn(const char* value) {
  return value == nullptr || std::string_view(value) != "0";
}

inline const int64_t kThreadLimit =
    ToThreadLimit(std::getenv(kThreadsVariable));
inline const bool kUsesHugePages =
    IsSwitchedOn(std::getenv(kHugePagesVariable));

}  // namespace environment_internal

// The value of kThreadsVariable; the largest number if it is not set.
inline int64_t ThreadLimit() { return environment_internal::kThreadLimit; }

// The value of kHugePagesVariable.
inline bool UsesHugePages() { return environment_internal::kUsesHugePages; }

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_ENVIRONMENT_H_
