#include "xla_ffi/core/batch_shape.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

BatchShape Split(const std::vector<int64_t>& dims) {
  return SplitLastAxis(dims);
}

constexpr int64_t kHuge = (int64_t{1} << 40) + 1;

TEST(ProductTest, IsZeroWhereItOverflows) {
  const auto product = [](const std::vector<int64_t>& dims) {
    return Product(dims);
  };
  EXPECT_EQ(product({}), 1);
  EXPECT_EQ(product({2, 3, 5}), 30);
  EXPECT_EQ(product({int64_t{1} << 62}), int64_t{1} << 62);
  EXPECT_EQ(product({int64_t{1} << 62, 2}), 0);
  EXPECT_EQ(product({kHuge, kHuge, 0}), 0);
  EXPECT_EQ(product({0, kHuge, kHuge}), 0);
}

TEST(ProductTest, CountsElementsAndBytes) {
  std::vector<int64_t> dims = {kHuge, kHuge, 0};
  XLA_FFI_Buffer raw = {};
  raw.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
  raw.dtype = XLA_FFI_DataType_F32;
  raw.rank = 3;
  raw.dims = dims.data();
  const xla::ffi::AnyBuffer buffer(&raw);
  EXPECT_EQ(ElementCount(buffer), 0);
  EXPECT_EQ(SizeBytes(buffer), 0u);
  dims = {2, 3, 5};
  EXPECT_EQ(ElementCount(buffer), 30);
  EXPECT_EQ(SizeBytes(buffer), 120u);
}

TEST(BatchShapeTest, SplitsOffTheLastAxis) {
  EXPECT_EQ(Split({7}).rows, 1);
  EXPECT_EQ(Split({7}).length, 7);
  EXPECT_EQ(Split({2, 3, 5}).rows, 6);
  EXPECT_EQ(Split({2, 3, 5}).length, 5);
  EXPECT_EQ(Split({int64_t{1} << 40, 2}).rows, int64_t{1} << 40);
}

TEST(BatchShapeTest, EmptyAxes) {
  EXPECT_EQ(Split({2, 0, 5}).rows, 0);
  EXPECT_EQ(Split({2, 0, 5}).length, 5);
  EXPECT_EQ(Split({2, 3, 0}).rows, 6);
  EXPECT_EQ(Split({2, 3, 0}).length, 0);
  EXPECT_EQ(Split({kHuge, kHuge, 0}).rows, 0);
}

TEST(BatchShapeTest, BatchAxes) {
  const std::vector<int64_t> dims = {2, 3, 5}, one = {5};
  EXPECT_EQ(BatchAxes(dims).size(), 2u);
  EXPECT_EQ(BatchAxes(dims).back(), 3);
  EXPECT_EQ(BatchAxes(one).size(), 0u);
}

TEST(AxisShapeTest, SplitsAtAnyAxis) {
  const std::vector<int64_t> dims = {2, 3, 5, 7};
  EXPECT_EQ(SplitAxis(dims, 0).outer, 1);
  EXPECT_EQ(SplitAxis(dims, 0).length, 2);
  EXPECT_EQ(SplitAxis(dims, 0).inner, 105);
  EXPECT_EQ(SplitAxis(dims, 2).outer, 6);
  EXPECT_EQ(SplitAxis(dims, 2).inner, 7);
  EXPECT_EQ(SplitAxis(dims, 3).outer, 30);
  EXPECT_EQ(SplitAxis(dims, 3).inner, 1);
  const std::vector<int64_t> empty = {kHuge, kHuge, 0, kHuge, kHuge};
  EXPECT_EQ(SplitAxis(empty, 2).outer, 0);
  EXPECT_EQ(SplitAxis(empty, 2).inner, 0);
}

}  // namespace
}  // namespace xla_ffi_kit
