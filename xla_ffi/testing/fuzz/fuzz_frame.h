// Bytes decoded into a call of a handler.
//
// What such a call may be: any handler of a table, with the function of any of
// its stages, called as any stage; a call that fits the handler's signature,
// with nothing or a few things changed, or one of its mistakes; or, as for a
// handler without a signature, 0 to 7 operands and 0 to 7 results of any dtype
// of FFI's and rank 0 to 4, most of them alike, and 0 to 3 attributes of any
// type; no thread pool or one of 1 to 3 threads. Data may be null, and a result
// may have the memory of an operand of as many bytes. Data that is not null has
// as many bytes as dtype and dimensions say; no dimension is negative, and no
// product of dimensions overflows. XLA guarantees that, and no handler could
// check all of it.

#ifndef XLA_FFI_TESTING_FUZZ_FUZZ_FRAME_H_
#define XLA_FFI_TESTING_FUZZ_FUZZ_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/choices.h"
#include "xla_ffi/testing/frames.h"
#include "xla_ffi/testing/guarded_memory.h"

namespace xla_ffi_kit::testing {

class FuzzFrame {
 public:
  FuzzFrame(const XlaFfiKit_HandlerTable& table, const HandlerHooks& hooks,
            const uint8_t* data, size_t size);

  const XlaFfiKit_Handler& handler() const { return *handler_; }
  // Whether the call has to succeed if its operands are right.
  bool is_execute() const { return is_execute_; }
  // The call, for people.
  std::string ToString() const;

  // Calls the handler. Afterwards violation() is empty, or says what the
  // handler wrote that it must not write.
  Status Run();
  const std::string& violation() const { return violation_; }

 private:
  void ChooseStage();
  void Fit(uint8_t kind, const HandlerHook& hook);
  void AddFreeBuffers();
  CallFrame::Buffer FreeBuffer();
  void ChangeBuffer(CallFrame::Buffer& buffer);
  void ChangeAttribute(Attributes& attributes, int depth);
  void GiveMemory(CallFrame::Buffer& buffer, bool is_operand);
  void FindViolations();

  const XlaFfiKit_Handler* handler_;
  Choices choices_;
  bool is_execute_ = false;
  XLA_FFI_Handler* function_ = nullptr;
  XLA_FFI_ExecutionStage stage_ = XLA_FFI_ExecutionStage_EXECUTE;
  CallFrame frame_;
  std::vector<GuardedMemory> memory_;  // of operands, then of results
  std::vector<std::string> operands_;  // what those must still be
  std::vector<bool> is_donated_;       // ...unless a result has its memory
  std::string text_;                   // of attributes that were changed
  std::string violation_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FUZZ_FUZZ_FRAME_H_
