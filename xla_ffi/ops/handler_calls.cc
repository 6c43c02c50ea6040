// Calls of every handler of the kit.

#include "xla_ffi/testing/handlers/handler_calls.h"

#include <cstdint>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;
using Dims = CallFrame::Dims;
using ffi::F32;

// Threads add what they found of a row in the order of the threads.
constexpr float kSums = 1e-5f;

std::vector<CallFrame> OfRank1(const std::string& op, const Dims& batch,
                               int64_t n) {
  const Dims x = Plus(batch, {n});
  std::vector<CallFrame> cases;
  if (op == "modular_add") {
    cases = {MakeEmptyFrame({{x}, {x}}, {{x}}),
             MakeEmptyFrame({{x}, {Plus(batch, {0})}}, {{Plus(batch, {0})}})};
  } else if (op == "relu") {
    cases = {MakeEmptyFrame({{x}}, {{x}})};
  } else if (op == "rms_norm") {
    cases = {MakeEmptyFrame({{x}}, {{x}, {batch}}).Attr("eps", 1e-6),
             MakeEmptyFrame({{x}, {{n}}, {x}}, {{x}, {x}, {batch}})
                 .Attr("eps", 1e-6),
             MakeEmptyFrame({{x}, {x}}, {{x}}).Attr("eps", 1e-6)};
  } else if (op == "rms_norm_bwd") {
    cases = {MakeEmptyFrame({{x}, {x}, {batch}}, {{x}}),
             MakeEmptyFrame({{x}, {x}}, {{x}}).Attr("eps", 1e-6)};
  } else if (op == "rms_norm_weight_bwd") {
    cases = {MakeEmptyFrame({{x}, {x}, {batch}, {{n}}}, {{x}, {{n}}}),
             MakeEmptyFrame({{x}, {x}, {batch}, {x}}, {{x}, {x}})};
  }
  return cases;
}

}  // namespace

HandlerCallMap HandlerCalls(int64_t size) {
  constexpr int64_t kRows = 1000;
  const Dims line = {size}, table = {kRows, size / kRows};
  const Dims scale = {kRows}, weight = {size / kRows};
  return {
      {"xla_ffi_kit.modular_add",
       {{MakeFrame({F32, F32}, {table, table}, {F32}, {table})}}},
      {"xla_ffi_kit.relu", {{MakeFrame({F32}, {line}, {F32}, {line})}}},
      {"xla_ffi_kit.rms_norm",
       {{MakeFrame({F32, F32, F32}, {table, weight, table}, {F32, F32},
                   {table, table})
             .Attr("eps", 1e-6),
         0, kSums},
        {MakeFrame({F32}, {table}, {F32, F32}, {table, scale})
             .Attr("eps", 1e-6f),
         0, kSums}}},
      {"xla_ffi_kit.rms_norm_bwd",
       {{MakeFrame({F32, F32, F32}, {table, table, scale}, {F32}, {table}), 0,
         kSums},
        {MakeFrame({F32, F32}, {table, table}, {F32}, {table})
             .Attr("eps", 1e-6),
         0, kSums}}},
      {"xla_ffi_kit.rms_norm_weight_bwd",
       {{MakeFrame({F32, F32, F32, F32}, {table, table, scale, weight},
                   {F32, F32}, {table, weight}),
         0, kSums}}},
  };
}

HandlerCallMap SharedRowCalls(int64_t size) {
  const Dims row = {1, size}, scale = {1}, weight = {size};
  HandlerCallMap calls;
  const auto add = [&](const std::string& op, const CallFrame& frame) {
    calls["xla_ffi_kit." + op].push_back({frame, 0, kSums});
  };
  add("rms_norm", MakeFrame({F32}, {row}, {F32}, {row}).Attr("eps", 1e-6));
  add("rms_norm_bwd",
      MakeFrame({F32, F32, F32}, {row, row, scale}, {F32}, {row}));
  add("rms_norm_weight_bwd",
      MakeFrame({F32, F32, F32, F32}, {row, row, scale, weight}, {F32, F32},
                {row, weight}));
  return calls;
}

std::vector<CallFrame> EmptyCalls(const std::string& target) {
  const std::string op = target.substr(std::string("xla_ffi_kit.").size());
  return OverEmptyBatches(
      [&](const Dims& batch, int64_t n) { return OfRank1(op, batch, n); });
}

}  // namespace xla_ffi_kit::testing
