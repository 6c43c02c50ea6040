// Bytes decoded into a call of a handler.
//
// What such a call may be: any handler of a table, with the function of any of
// its stages, called as any stage; 0 to 7 operands and 0 to 7 results of any
// dtype of FFI's and rank 0 to 4; the handler's own attributes, with any
// values, and 0 to 3 of any type; no thread pool or one of 1 to 3 threads. Data
// may be null, and a result may have the memory of an operand of as many bytes.
// Data that is not null has as many bytes as dtype and dimensions say; no
// dimension is negative, and no product of dimensions overflows. XLA guarantees
// that, and no handler could check all of it.
//
// Most frames at random would be refused for their first operand. So a frame is
// made in one of three ways, and then changed in places:
//
// - as the handler's signature says, with open shapes derived from the first;
// - like a call of the package's HandlerCalls() (handlers/handler_calls.h);
// - of any buffers, all derived from one: the same, without its last axis, or
//   with another last axis. A handler without a signature has only these.

#ifndef XLA_FFI_TESTING_FUZZ_FUZZ_FRAME_H_
#define XLA_FFI_TESTING_FUZZ_FUZZ_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/fuzz/fuzz_input.h"
#include "xla_ffi/testing/fuzz/guarded_memory.h"

namespace xla_ffi_kit::testing {

// From these values on, the byte that says how a frame is made asks for one
// that the signature describes, and for one like an example.
inline constexpr uint8_t kFuzzDescribed = 64, kFuzzExample = 192;
// From this value on, the first byte of a described buffer asks for a change.
inline constexpr uint8_t kFuzzChange = 224;

class FuzzFrame {
 public:
  FuzzFrame(const XlaFfiKit_HandlerTable& table, const uint8_t* data,
            size_t size);

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
  // A buffer before it has data.
  struct Shape {
    XLA_FFI_DataType dtype;
    CallFrame::Dims dims;
  };

  Shape FreeShape();
  Shape DerivedShape();
  // As the signature says; `made` are those of the arguments before, anything
  // for one that is missing.
  Shape DescribedShape(const XlaFfiKit_Argument& says,
                       const std::vector<Shape>& made);
  CallFrame::Dims DescribedDims(const XlaFfiKit_Argument& says,
                                const Shape* model);
  void AddDescribed(const XlaFfiKit_Signature& signature);
  void AddBuffers(int64_t count, bool is_operand);
  void AddBuffer(const Shape& shape, bool is_operand);
  // The buffers and attributes of a good call, some of them changed.
  void AddLike(CallFrame example);
  void SetLike(const std::string& name, Attributes& attributes);
  void AddAttributes(Attributes& attributes, int depth);
  void AddDescribedAttribute(const XlaFfiKit_Attribute& says,
                             Attributes& attributes);
  void AddFreeAttribute(Attributes& attributes, int depth);
  void* MakeData(const Shape& shape, bool is_operand);
  void FindViolations();

  const XlaFfiKit_Handler* handler_;
  FuzzInput input_;
  bool is_execute_ = false;
  XLA_FFI_Handler* function_ = nullptr;
  XLA_FFI_ExecutionStage stage_ = XLA_FFI_ExecutionStage_EXECUTE;
  Shape model_ = {XLA_FFI_DataType_F32, {}};
  CallFrame::Dims last_dims_;  // of the last buffer that was added
  CallFrame frame_;
  std::vector<GuardedMemory> memory_;  // of operands, then of results
  std::vector<std::string> operands_;  // what those must still be
  std::vector<bool> is_donated_;       // ...unless a result has its memory
  std::vector<bool> is_missing_;       // described arguments
  std::map<std::string, int64_t> integers_;  // described attributes
  std::string attribute_text_;
  std::string violation_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FUZZ_FUZZ_FRAME_H_
