// What a handler says of a call that it refuses.

#ifndef XLA_FFI_TESTING_EXPECT_INVALID_H_
#define XLA_FFI_TESTING_EXPECT_INVALID_H_

#include <string>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {

// Expects INVALID_ARGUMENT with this message.
inline void ExpectInvalid(const Status& status, const std::string& message) {
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(status.message, message);
}

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_EXPECT_INVALID_H_
