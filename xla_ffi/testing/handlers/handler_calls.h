// Calls of every handler of a package, for the tests of defs.bzl.

#ifndef XLA_FFI_TESTING_HANDLERS_HANDLER_CALLS_H_
#define XLA_FFI_TESTING_HANDLERS_HANDLER_CALLS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {

// The number of threads that the calls' bounds assume; the tests set it.
inline constexpr int64_t kHandlerCallThreads = 3;

// The most bytes of an array of a call.
inline constexpr int64_t kMaxHandlerCallBytes = int64_t{8} << 20;

struct HandlerCall {
  CallFrame frame;
  int64_t scratch = 0;  // bytes, beside what threads need whatever the operands
  // How far results may differ where another number of threads computes them,
  // relative to the largest.
  float tolerance = 0;
  // Writes what operands need beside random numbers of 0 to 63; may be null.
  std::function<void(CallFrame&)> fill = nullptr;
};

using HandlerCallMap = std::map<std::string, std::vector<HandlerCall>>;

// Operands, then results, each in memory of its own: zeros, until somebody
// writes to it. All calls share it. Arrays have up to kMaxHandlerCallBytes.
CallFrame MakeFrame(const std::vector<::xla::ffi::DataType>& args,
                    const std::vector<CallFrame::Dims>& arg_dims,
                    const std::vector<::xla::ffi::DataType>& rets,
                    const std::vector<CallFrame::Dims>& ret_dims);

// A dimension: the product of two, modulo 2^64, is no zero.
inline constexpr int64_t kHugeDim = (int64_t{1} << 40) + 1;

struct EmptyBuffer {
  CallFrame::Dims dims;
  ::xla::ffi::DataType dtype = ::xla::ffi::DataType::F32;
};

// Makes a call of arrays without elements, or with so few that all share some
// zeros.
CallFrame MakeEmptyFrame(const std::vector<EmptyBuffer>& operands,
                         const std::vector<EmptyBuffer>& results);

// `dims`, then `more`.
CallFrame::Dims Plus(CallFrame::Dims dims, const CallFrame::Dims& more);

// Calls of arrays of any rank: of_rank1(batch, n) with a zero in the batch or
// as n, and of_matrices(batch) with one in the batch; either may be null.
std::vector<CallFrame> OverEmptyBatches(
    const std::function<std::vector<CallFrame>(const CallFrame::Dims&,
                                               int64_t)>& of_rank1,
    const std::function<std::vector<CallFrame>(const CallFrame::Dims&)>&
        of_matrices = nullptr);

// --- What the package defines ---------------------------------------------

// Returns calls by custom call target. Arrays have up to `size` elements, at
// most a million.
HandlerCallMap HandlerCalls(int64_t size);

// Calls whose rows or lines threads share, of those that have any.
HandlerCallMap SharedRowCalls(int64_t size);

// Returns calls of arrays without elements whose dimensions have a product that
// does not fit 64 bits.
std::vector<CallFrame> EmptyCalls(const std::string& target);

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_HANDLERS_HANDLER_CALLS_H_
