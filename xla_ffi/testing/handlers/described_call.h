// A call's buffers and attributes beside what the handler's signature says of
// each.

#ifndef XLA_FFI_TESTING_HANDLERS_DESCRIBED_CALL_H_
#define XLA_FFI_TESTING_HANDLERS_DESCRIBED_CALL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_ffi/core/handler_signature.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {

struct DescribedBuffer {
  const XlaFfiKit_Argument* says;
  bool is_operand;
  size_t index;  // among the call's operands, or among its results
  // Places of the buffers whose dtype and shape it has, or -1.
  int dtype_of = -1, shape_of = -1;

  CallFrame::Buffer& In(CallFrame& frame) const {
    return (is_operand ? frame.args() : frame.rets())[index];
  }
};

// Operands, then results, of a call that fits the signature in their number.
std::vector<DescribedBuffer> DescribedBuffers(
    const XlaFfiKit_Signature& signature, CallFrame& frame);

// The attributes that such a call has.
std::vector<const XlaFfiKit_Attribute*> DescribedAttributes(
    const XlaFfiKit_Signature& signature, CallFrame& frame);

// A call with one mistake.
struct Mistake {
  std::string what;
  CallFrame frame;
};

// Calls like `good` with one mistake each that the signature names: a number of
// arguments, a dtype, a rank, a shape, an attribute's name, type or value.
std::vector<Mistake> Mistakes(const XlaFfiKit_Signature& signature,
                              const CallFrame& good);

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_HANDLERS_DESCRIBED_CALL_H_
