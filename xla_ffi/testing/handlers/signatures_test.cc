// What the handlers of a library say of themselves is what they do.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/handlers/described_call.h"
#include "xla_ffi/testing/handlers/handler_calls.h"

extern "C" const XlaFfiKit_HandlerTable* XLA_FFI_KIT_HANDLER_TABLE();

namespace xla_ffi_kit::testing {
namespace {

// Elements of the arrays: any dtype of theirs is in the memory of the calls.
constexpr int64_t kSize = 1 << 16;

// Calls test(handler, its signature, its calls) for each handler that has one.
template <typename Test>
void ForEachHandler(const Test& test) {
  HandlerCallMap calls = HandlerCalls(kSize);
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table->handlers[i];
    SCOPED_TRACE(handler.name);
    ASSERT_NE(handler.signature, nullptr)
        << "has no signature: XLA_FFI_KIT_DEFINE_SIGNATURE";
    for (HandlerCall& call : calls[handler.name]) {
      if (call.fill != nullptr) call.fill(call.frame);
    }
    test(handler, *handler.signature, calls[handler.name]);
  }
}

TEST(SignaturesTest, AreWhole) {
  ForEachHandler([](const XlaFfiKit_Handler& handler,
                    const XlaFfiKit_Signature& signature, const auto& calls) {
    EXPECT_STREQ(signature.operation, handler.name);
    EXPECT_FALSE(calls.empty()) << "has no call in HandlerCalls()";
    const size_t arguments = signature.num_operands + signature.num_results;
    for (size_t i = 0; i < arguments; ++i) {
      const XlaFfiKit_Argument& argument = signature.arguments[i];
      const std::string_view place = argument.place;
      const std::string_view kind =
          i < signature.num_operands ? "operand" : "result";
      EXPECT_EQ(place.substr(0, kind.size()), kind) << place;
      EXPECT_LT(argument.dtype_of, static_cast<int32_t>(arguments)) << place;
      EXPECT_LT(argument.shape_of, static_cast<int32_t>(arguments)) << place;
    }
    for (size_t i = 1; i < signature.num_attributes; ++i) {
      EXPECT_LT(std::string_view(signature.attributes[i - 1].name),
                signature.attributes[i].name);
    }
  });
}

TEST(SignaturesTest, CallsThatFitAreAccepted) {
  ForEachHandler([](const XlaFfiKit_Handler& handler,
                    const XlaFfiKit_Signature&,
                    std::vector<HandlerCall>& calls) {
    for (HandlerCall& call : calls) {
      EXPECT_EQ(call.frame.Run(handler.execute).message, "")
          << "call " << &call - calls.data();
    }
  });
}

TEST(SignaturesTest, AnyOtherIsRefused) {
  ForEachHandler([](const XlaFfiKit_Handler& handler,
                    const XlaFfiKit_Signature& signature,
                    std::vector<HandlerCall>& calls) {
    const std::string name = std::string(handler.name) + ": ";
    for (const HandlerCall& call : calls) {
      for (Mistake& mistake : Mistakes(signature, call.frame)) {
        const Status status = mistake.frame.Run(handler.execute);
        EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT)
            << mistake.what;
        EXPECT_EQ(status.message.substr(0, name.size()), name) << mistake.what;
      }
    }
  });
}

// Whether a call is accepted where buffers [i, end) may have any of their
// dtypes. Those that have another's dtype come after it, or have it at once.
bool IsAccepted(XLA_FFI_Handler* handler, CallFrame& frame,
                const std::vector<DescribedBuffer>& buffers, size_t i,
                size_t fixed) {
  if (i == buffers.size()) {
    for (const DescribedBuffer& buffer : buffers) {
      if (buffer.dtype_of < 0) continue;
      buffer.In(frame).dtype = buffers[buffer.dtype_of].In(frame).dtype;
    }
    return frame.Run(handler).ok();
  }
  const XlaFfiKit_Argument& says = *buffers[i].says;
  if (i == fixed || buffers[i].dtype_of >= 0 || says.num_dtypes < 2) {
    return IsAccepted(handler, frame, buffers, i + 1, fixed);
  }
  for (size_t j = 0; j < says.num_dtypes; ++j) {
    buffers[i].In(frame).dtype = static_cast<XLA_FFI_DataType>(says.dtypes[j]);
    if (IsAccepted(handler, frame, buffers, i + 1, fixed)) return true;
  }
  return false;
}

// Whether one of the calls is accepted where a buffer that the signature says
// this of has the dtype.
bool IsAcceptedAs(const XlaFfiKit_Handler& handler,
                  const std::vector<HandlerCall>& calls,
                  const XlaFfiKit_Argument& says, int32_t dtype) {
  for (const HandlerCall& call : calls) {
    CallFrame frame = call.frame;
    const std::vector<DescribedBuffer> buffers =
        DescribedBuffers(*handler.signature, frame);
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].says != &says) continue;
      buffers[i].In(frame).dtype = static_cast<XLA_FFI_DataType>(dtype);
      if (IsAccepted(handler.execute, frame, buffers, 0, i)) return true;
    }
  }
  return false;
}

TEST(SignaturesTest, EveryDtypeIsAccepted) {
  ForEachHandler([](const XlaFfiKit_Handler& handler,
                    const XlaFfiKit_Signature& signature, const auto& calls) {
    for (size_t i = 0; i < signature.num_operands + signature.num_results;
         ++i) {
      const XlaFfiKit_Argument& says = signature.arguments[i];
      for (size_t j = 0; j < says.num_dtypes && says.dtype_of < 0; ++j) {
        EXPECT_TRUE(IsAcceptedAs(handler, calls, says, says.dtypes[j]))
            << says.place << " of dtype " << says.dtypes[j];
      }
    }
  });
}

}  // namespace
}  // namespace xla_ffi_kit::testing
