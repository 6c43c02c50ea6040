#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/half.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

// Name of the type that dispatch chooses; the error's text if it fails.
template <typename Types>
std::string Chosen(Types types, ffi::DataType dtype) {
  std::string chosen;
  const ffi::Error error =
      DispatchDtype(types, dtype, {"op", "operand x"}, [&](auto tag) {
        using T = typename decltype(tag)::type;
        chosen = DtypeName(kDtypeOf<T>) + " of " + std::to_string(sizeof(T));
        return ffi::Error();
      });
  return error.failure() ? error.message() : chosen;
}

TEST(DtypeDispatchTest, ChoosesTheTypeOfTheList) {
  const std::pair<ffi::DataType, const char*> dtypes[] = {
      {ffi::F16, "f16 of 2"}, {ffi::BF16, "bf16 of 2"},
      {ffi::F32, "f32 of 4"}, {ffi::F64, "f64 of 8"},
      {ffi::C64, "c64 of 8"}, {ffi::C128, "c128 of 16"},
      {ffi::S8, "s8 of 1"},   {ffi::S16, "s16 of 2"},
      {ffi::S32, "s32 of 4"}, {ffi::S64, "s64 of 8"},
      {ffi::U8, "u8 of 1"},   {ffi::U16, "u16 of 2"},
      {ffi::U32, "u32 of 4"}, {ffi::U64, "u64 of 8"}};
  for (const auto& [dtype, name] : dtypes) {
    EXPECT_EQ(Chosen(NumberTypes(), dtype), name);
  }
}

TEST(DtypeDispatchTest, NamesWhatItKnowsAndWhatItGot) {
  EXPECT_EQ(Chosen(RealFloatTypes(), ffi::C64),
            "op: operand x: expected one of the dtypes f16, bf16, f32, f64, "
            "got c64");
  EXPECT_EQ(Chosen(TypeList<float>(), ffi::TOKEN),
            "op: operand x: expected one of the dtypes f32, got token");
  // A type that these headers do not know.
  EXPECT_EQ(Chosen(TypeList<float>(), static_cast<ffi::DataType>(99)),
            "op: operand x: expected one of the dtypes f32, got dtype 99");
}

TEST(DtypeDispatchTest, ReturnsTheErrorOfTheFunction) {
  const ffi::Error error =
      DispatchDtype(FloatTypes(), ffi::F32, {"op", "operand x"},
                    [](auto) { return ffi::Error::Internal("no"); });
  EXPECT_EQ(error.errc(), ffi::ErrorCode::kInternal);
  EXPECT_EQ(error.message(), "no");
}

}  // namespace
}  // namespace xla_ffi_kit
