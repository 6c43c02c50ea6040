// Every way to call a handler wrongly that a good call suggests.

#ifndef XLA_FFI_TESTING_BAD_FRAMES_H_
#define XLA_FFI_TESTING_BAD_FRAMES_H_

#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {

struct BadFrame {
  std::string mistake;
  CallFrame frame;
};

// Copies of `good` with one mistake each: a missing or an additional operand,
// result or attribute; for each buffer another dtype, another rank, null data
// in place of data; for each attribute another type. Their buffers are never
// longer than those of `good`.
std::vector<BadFrame> BadFrames(const CallFrame& good);

// Expects that `handler` accepts `good` - unless it cannot run here, as on a
// machine without a GPU - and refuses each of BadFrames(good): with
// INVALID_ARGUMENT and a message, and without writing to a result. `none` names
// the mistakes that are none, since an operand is optional: it accepts them.
void ExpectRefusesBadFrames(XLA_FFI_Handler* handler, CallFrame good,
                            bool can_run = true,
                            const std::vector<std::string>& none = {});

// Expects that `handler` accepts `good`, and refuses null data of each of its
// operands and results, which are named in this order, in the words of
// CheckData() of xla_ffi/core/checks.h.
void ExpectRefusesNullData(XLA_FFI_Handler* handler, CallFrame good,
                           const std::string& operation,
                           const std::vector<std::string>& names);

// Expects INVALID_ARGUMENT with this message.
void ExpectInvalid(const Status& status, const std::string& message);

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_BAD_FRAMES_H_
