// Arrays without elements, of dimensions whose product 64 bits do not hold:
// every handler takes or refuses them, and does so at once.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/handlers/handler_calls.h"

extern "C" const XlaFfiKit_HandlerTable* XLA_FFI_KIT_HANDLER_TABLE();

namespace xla_ffi_kit::testing {
namespace {

TEST(EmptyArraysTest, AreTakenAtOnceOrRefused) {
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table->handlers[i];
    SCOPED_TRACE(handler.name);
    std::vector<CallFrame> cases = EmptyCalls(handler.name);
    EXPECT_FALSE(cases.empty()) << "has no case in this test";
    int taken = 0;
    for (CallFrame& c : cases) {
      for (const int64_t threads : {1, 3}) {
        const Status status = c.Threads(threads).Run(handler.execute);
        EXPECT_TRUE(status.ok() ||
                    status.code == XLA_FFI_Error_Code_INVALID_ARGUMENT)
            << status.message;
        taken += status.ok();
      }
    }
    EXPECT_GT(taken, 0);
  }
}

}  // namespace
}  // namespace xla_ffi_kit::testing
