#include "accelerate/core/ordered_key.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/dtypes.h"

namespace xla_ffi_accelerate {
namespace {

// In ascending order: the code's own test of every dtype's constants.
template <typename T>
std::vector<T> Ascending() {
  std::vector<float> values = {-2, -1, 0, 1, 2};
  if constexpr (!std::is_signed_v<T> && std::is_integral_v<T>) {
    values = {0, 1};
  } else if constexpr (!std::is_integral_v<T>) {
    values = {-INFINITY, -2, -1, 0, 1, 2, INFINITY, NAN};
  }
  std::vector<T> keys;
  for (const float value : values) keys.push_back(static_cast<T>(value));
  return keys;
}

template <typename T, typename Code>
auto CodeOf(const Code& code, T key) {
  typename Code::Key bits;
  static_assert(sizeof(bits) == sizeof(T));
  std::memcpy(&bits, &key, sizeof(T));
  return code.Encode(bits);
}

template <typename T>
void CheckOrder() {
  const KeyCode any = OrderedKey<T>(false);  // every key type has one
  EXPECT_FALSE(any.valueless_by_exception());
  const auto code = OrderedKey<T>(true);
  const std::vector<T> keys = Ascending<T>();
  for (size_t i = 1; i < keys.size(); ++i) {
    // A vector of bool has no elements of that type.
    EXPECT_LT(CodeOf<T>(code, keys[i - 1]), CodeOf<T>(code, keys[i])) << i;
  }
}

template <typename... Ts>
void CheckAll(TypeList<Ts...>) {
  (CheckOrder<Ts>(), ...);
}

TEST(OrderedKeyTest, IsTheOrderOfEveryKeyType) { CheckAll(KeyTypes()); }

TEST(OrderedKeyTest, ZerosAndNansAreEqual) {
  const auto code = OrderedKey<float>(false);
  EXPECT_EQ(CodeOf(code, -0.0f), CodeOf(code, 0.0f));
  EXPECT_EQ(CodeOf(code, -NAN), CodeOf(code, NAN));
}

// Of f16 they are normal numbers of the type it is widened to.
TEST(OrderedKeyTest, SubnormalsAreZeroWhereAskedToExceptOfF16) {
  for (const bool are_zero : {false, true}) {
    EXPECT_EQ(OrderedKey<Float16>(are_zero).min_non_zero, 1);
    EXPECT_EQ(OrderedKey<BFloat16>(are_zero).min_non_zero,
              are_zero ? 0x0080 : 1);
    EXPECT_EQ(OrderedKey<float>(are_zero).min_non_zero,
              are_zero ? 0x00800000u : 1u);
    EXPECT_EQ(OrderedKey<double>(are_zero).min_non_zero,
              are_zero ? uint64_t{1} << 52 : 1);
  }
  EXPECT_EQ(OrderedKey<Float16>(true).infinity, 0x7c00);
  EXPECT_EQ(OrderedKey<BFloat16>(true).infinity, 0x7f80);
}

}  // namespace
}  // namespace xla_ffi_accelerate
