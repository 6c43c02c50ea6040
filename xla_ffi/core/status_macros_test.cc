#include "xla_ffi/core/status_macros.h"

#include <map>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error Check(int value) {
  if (value >= 0) return {};
  return ffi::Error::InvalidArgument("negative");
}

ffi::ErrorOr<std::unique_ptr<int>> Parse(int value) {
  XLA_FFI_KIT_RETURN_IF_ERROR(Check(value));
  return std::make_unique<int>(value);
}

// A comma outside parentheses, and two values in one function.
ffi::Error Add(int a, int b, int* sum) {
  XLA_FFI_KIT_RETURN_IF_ERROR(
      Check(static_cast<int>(std::map<int, int>{}.size())));
  XLA_FFI_KIT_ASSIGN_OR_RETURN(const std::unique_ptr<int> x, Parse(a));
  std::unique_ptr<int> y;
  XLA_FFI_KIT_ASSIGN_OR_RETURN(y, Parse(b));
  *sum = *x + *y;
  return {};
}

TEST(StatusMacrosTest, PassSuccess) {
  int sum = 0;
  EXPECT_TRUE(Add(1, 2, &sum).success());
  EXPECT_EQ(sum, 3);
}

TEST(StatusMacrosTest, ReturnTheFirstError) {
  int sum = 0;
  for (const auto& [a, b] : {std::pair(-1, 2), std::pair(1, -2)}) {
    const ffi::Error error = Add(a, b, &sum);
    ASSERT_TRUE(error.failure());
    EXPECT_EQ(error.message(), "negative");
  }
  EXPECT_EQ(sum, 0);
}

}  // namespace
}  // namespace xla_ffi_kit
