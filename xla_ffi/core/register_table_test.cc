#include "xla_ffi/core/register_table.h"

#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/fake_api.h"

namespace xla_ffi_kit {
namespace {

// What the fake XLA below was asked to register, and what it answers to the
// registration of `refused`.
struct Registrations {
  std::vector<std::string> names;
  std::string refused;
  std::string answer;
};
Registrations* registrations = nullptr;

XLA_FFI_Error* Record(XLA_FFI_ByteSpan name) {
  registrations->names.emplace_back(name.ptr, name.len);
  if (registrations->names.back() != registrations->refused) return nullptr;
  return reinterpret_cast<XLA_FFI_Error*>(new testing::FakeError{
      XLA_FFI_Error_Code_ALREADY_EXISTS, registrations->answer});
}

XLA_FFI_Error* NoHandler(XLA_FFI_CallFrame*) { return nullptr; }

class RegisterTableTest : public ::testing::Test {
 protected:
  RegisterTableTest() : api_(*testing::FakeApi()) {
    registrations = &recorded_;
    api_.XLA_FFI_Handler_Register = [](XLA_FFI_Handler_Register_Args* args) {
      return Record(args->name);
    };
    api_.XLA_FFI_Type_Register = [](XLA_FFI_Type_Register_Args* args) {
      args->type_id->type_id = 7;
      return Record(args->name);
    };
  }
  ~RegisterTableTest() override { registrations = nullptr; }

  testing::FakeError Register(const char* platform_of_b = "Host") {
    const XlaFfiKit_Handler handlers[] = {
        {"kit.a", "Host", nullptr, nullptr, nullptr, NoHandler, nullptr},
        {"kit.b", platform_of_b, nullptr, nullptr, nullptr, NoHandler,
         nullptr}};
    const XLA_FFI_TypeInfo info = {};
    const XlaFfiKit_Type types[] = {{"kit.State", "Host", &type_id_, &info}};
    XlaFfiKit_HandlerTable table = {};
    table.library = "test library";
    table.num_handlers = 2;
    table.handlers = handlers;
    table.num_types = 1;
    table.types = types;
    XLA_FFI_Error* error = RegisterHandlerTable(&api_, table);
    if (error == nullptr) return {XLA_FFI_Error_Code_OK, ""};
    auto* fake = reinterpret_cast<testing::FakeError*>(error);
    const testing::FakeError copy = *fake;
    delete fake;
    return copy;
  }

  Registrations recorded_;
  XLA_FFI_Api api_;
  XLA_FFI_TypeId type_id_ = {0};
};

TEST_F(RegisterTableTest, RegistersTypesBeforeHandlers) {
  EXPECT_EQ(Register().code, XLA_FFI_Error_Code_OK);
  EXPECT_EQ(recorded_.names,
            (std::vector<std::string>{"kit.State", "kit.a", "kit.b"}));
  EXPECT_EQ(type_id_.type_id, 7);
}

TEST_F(RegisterTableTest, StopsAtTheFirstErrorAndNamesTheHandler) {
  recorded_.refused = "kit.a";
  recorded_.answer = "it is full";
  const testing::FakeError error = Register();
  EXPECT_EQ(error.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(error.message,
            "test library: registering handler kit.a on platform Host: it is "
            "full");
  EXPECT_EQ(recorded_.names, (std::vector<std::string>{"kit.State", "kit.a"}));
}

TEST_F(RegisterTableTest, RefusesAPlatformThatXlaWouldNeverLookIn) {
  const testing::FakeError error = Register("cpu");
  EXPECT_EQ(error.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(error.message,
            "test library: registering handler kit.b: expected platform Host, "
            "CUDA or ROCM, as XLA spells them, got cpu");
  EXPECT_EQ(recorded_.names, (std::vector<std::string>{"kit.State", "kit.a"}));
  EXPECT_EQ(Register("CUDA").code, XLA_FFI_Error_Code_OK);
}

TEST_F(RegisterTableTest, NamesTheType) {
  recorded_.refused = "kit.State";
  recorded_.answer = "it is full";
  EXPECT_EQ(Register().message,
            "test library: registering type kit.State on platform Host: it is "
            "full");
}

TEST_F(RegisterTableTest, KeepsAnErrorThatNamesTheHandlerAlready) {
  recorded_.refused = "kit.b";
  recorded_.answer = "Duplicate FFI handler registration for kit.b";
  const testing::FakeError error = Register();
  EXPECT_EQ(error.code, XLA_FFI_Error_Code_ALREADY_EXISTS);
  EXPECT_EQ(error.message, recorded_.answer);
}

}  // namespace
}  // namespace xla_ffi_kit
