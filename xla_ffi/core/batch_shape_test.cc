#include "xla_ffi/core/batch_shape.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

BatchShape Split(const std::vector<int64_t>& dims) {
  return SplitLastAxis(dims);
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
}

}  // namespace
}  // namespace xla_ffi_kit
