// The memory of a call's arrays.

#ifndef XLA_FFI_TESTING_FRAME_MEMORY_H_
#define XLA_FFI_TESTING_FRAME_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/guarded_memory.h"

namespace xla_ffi_kit::testing {

// Of an array: 0 if a product of its dimensions does not fit 64 bits.
int64_t CountOf(const CallFrame::Buffer& buffer);
size_t BytesOf(const CallFrame::Buffer& buffer);

class FrameMemory {
 public:
  // Gives each array of the call memory of its own, if it has elements: of
  // operands random numbers, integers of 0 to 63 and finite floats. What takes
  // more bytes than that has none.
  explicit FrameMemory(CallFrame& frame, size_t most_bytes = size_t{64} << 20);

  // After the operands have been changed: keeps what they are now.
  void Keep();
  // What calls since have written that they must not write; empty if nothing.
  std::string Violation() const;
  // The bytes of all results.
  std::string Results() const;

 private:
  std::vector<GuardedMemory> memory_;  // of operands, then of results
  size_t num_operands_ = 0;            // with memory
  std::vector<std::string> operands_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FRAME_MEMORY_H_
