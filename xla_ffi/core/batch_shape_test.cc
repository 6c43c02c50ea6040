#include "xla_ffi/core/batch_shape.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

using Dims = std::vector<int64_t>;
constexpr int64_t kHuge = (int64_t{1} << 40) + 1;

TEST(BatchShapeTest, AProductThatOverflowsIsZero) {
  const auto product = [](const Dims& dims) { return Product(dims); };
  EXPECT_EQ(product({}), 1);
  EXPECT_EQ(product({2, 3, 5}), 30);
  EXPECT_EQ(product({int64_t{1} << 62}), int64_t{1} << 62);
  EXPECT_EQ(product({int64_t{1} << 62, 2}), 0);
  EXPECT_EQ(product({kHuge, kHuge, 0}), 0);
  EXPECT_EQ(product({0, kHuge, kHuge}), 0);
}

TEST(BatchShapeTest, SplitsOffTheLastAxis) {
  const auto split = [](const Dims& dims) {
    const BatchShape shape = SplitLastAxis(dims);
    return Dims{shape.rows, shape.length};
  };
  EXPECT_EQ(split({7}), (Dims{1, 7}));
  EXPECT_EQ(split({2, 3, 5}), (Dims{6, 5}));
  EXPECT_EQ(split({2, 0, 5}), (Dims{0, 5}));
  EXPECT_EQ(split({kHuge, kHuge, 0}), (Dims{0, 0}));
}

TEST(BatchShapeTest, SplitsAtAnyAxis) {
  const auto split = [](const Dims& dims, int64_t axis) {
    const AxisShape shape = SplitAxis(dims, axis);
    return Dims{shape.outer, shape.length, shape.inner};
  };
  EXPECT_EQ(split({2, 3, 5, 7}, 0), (Dims{1, 2, 105}));
  EXPECT_EQ(split({2, 3, 5, 7}, 2), (Dims{6, 5, 7}));
  EXPECT_EQ(split({2, 3, 5, 7}, 3), (Dims{30, 7, 1}));
  EXPECT_EQ(split({kHuge, kHuge, 0, kHuge, kHuge}, 2), (Dims{0, 0, 0}));
}

}  // namespace
}  // namespace xla_ffi_kit
