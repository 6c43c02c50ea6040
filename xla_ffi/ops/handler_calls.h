// Calls of every handler of the kit, large enough for several threads.

#ifndef XLA_FFI_OPS_HANDLER_CALLS_H_
#define XLA_FFI_OPS_HANDLER_CALLS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {

// What the calls' bounds are for; the caller sets it.
inline constexpr int64_t kHandlerCallThreads = 3;

// Of an array of a call.
inline constexpr int64_t kMaxHandlerCallBytes = int64_t{8} << 20;

struct HandlerCall {
  CallFrame frame;
  int64_t scratch;  // bytes, beside what threads need whatever the operands
};

// Operands, then results, each in memory of its own: zeros, until somebody
// writes to it. All calls share it.
CallFrame MakeFrame(const std::vector<::xla::ffi::DataType>& args,
                    const std::vector<CallFrame::Dims>& arg_dims,
                    const std::vector<::xla::ffi::DataType>& rets,
                    const std::vector<CallFrame::Dims>& ret_dims);

// By custom call target. Arrays have up to `size` elements, at most a million.
std::map<std::string, std::vector<HandlerCall>> HandlerCalls(int64_t size);

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_OPS_HANDLER_CALLS_H_
