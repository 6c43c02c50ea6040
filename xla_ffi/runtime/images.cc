#include "xla_ffi/runtime/images.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit::launch {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kMachineCode = "sm_";
constexpr std::string_view kPtx = "compute_";

// The part of `text` before `end`, which is removed from it with `end`.
std::string_view Take(std::string_view& text, char end) {
  const size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

// 90 of "sm_90" after the prefix "sm_"; -1 of all else.
int Capability(std::string_view architecture, std::string_view prefix) {
  if (architecture.substr(0, prefix.size()) != prefix) return -1;
  int number = -1;
  const char* end = architecture.data() + architecture.size();
  const auto read =
      std::from_chars(architecture.data() + prefix.size(), end, number);
  return read.ptr == end ? number : -1;
}

int Digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

bool Decode(std::string_view base64, std::string* bytes) {
  uint32_t bits = 0;
  int count = 0;
  while (!base64.empty() && base64.back() == '=') base64.remove_suffix(1);
  bytes->reserve(base64.size() / 4 * 3 + 3);
  for (const char c : base64) {
    const int digit = Digit(c);
    if (digit < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes->push_back(static_cast<char>(bits >> count & 0xff));
    }
  }
  return !bytes->empty();
}

}  // namespace

ffi::ErrorOr<std::string> ImageFor(std::string_view code, int major,
                                   int minor) {
  const int capability = 10 * major + minor;
  std::string_view best, ptx, lines = code;
  int best_capability = -1, ptx_capability = -1;
  std::string offered;
  while (!lines.empty()) {
    std::string_view image = Take(lines, '\n');
    const std::string_view architecture = Take(image, ' ');
    offered.append(offered.empty() ? "" : ", ").append(architecture);
    const int machine = Capability(architecture, kMachineCode);
    const int virtual_machine = Capability(architecture, kPtx);
    if (machine / 10 == major && machine <= capability &&
        machine > best_capability) {
      best_capability = machine;
      best = image;
    } else if (virtual_machine <= capability &&
               virtual_machine > ptx_capability) {
      ptx_capability = virtual_machine;
      ptx = image;
    }
  }
  std::string bytes;
  const bool has_code = best_capability >= 0;
  if (!has_code && ptx_capability < 0) {
    return ffi::Unexpected(ffi::Error(
        ffi::ErrorCode::kFailedPrecondition,
        "code: expected some for this GPU, of compute capability " +
            std::to_string(major) + "." + std::to_string(minor) + ", got " +
            (offered.empty() ? "none" : offered) +
            "; export the program again on a machine with such a GPU"));
  }
  if (!Decode(has_code ? best : ptx, &bytes)) {
    return ffi::Unexpected(
        ffi::Error(ffi::ErrorCode::kInvalidArgument,
                   "code: expected base64, got something else; the program is "
                   "damaged"));
  }
  return bytes;
}

}  // namespace xla_ffi_kit::launch
