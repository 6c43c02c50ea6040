// A program on a PJRT plugin: what Run() takes, and what it refuses.

#include "examples/pjrt_server/pjrt/plugin.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "examples/pjrt_server/pjrt/array.h"
#include "gtest/gtest.h"

namespace xla_ffi_kit::pjrt {
namespace {

const Dtype* Named(const std::string& name) {
  for (const Dtype& dtype : kDtypes) {
    if (name == dtype.name) return &dtype;
  }
  return nullptr;
}

std::string BytesOf(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(ShapeTest, AnEmptyAxisMakesAllEmpty) {
  constexpr int64_t kHuge = (int64_t{1} << 40) + 1;
  EXPECT_EQ((Shape{Named("f32"), {2, 3}}.Bytes()), 24);
  EXPECT_EQ((Shape{Named("f32"), {kHuge, kHuge, 0}}.Bytes()), 0);
  EXPECT_EQ((Shape{Named("f32"), {0, kHuge, kHuge}}.Bytes()), 0);
  EXPECT_THROW((Shape{Named("f32"), {kHuge, kHuge}}.Bytes()), Error);
}

class ProgramTest : public ::testing::Test {
 protected:
  static Program Doubled() {
    static Plugin& plugin = *[] {
      auto* started = new Plugin(std::getenv("PJRT_PLUGIN"));
      started->Start();
      return started;
    }();
    return plugin.Compile(
        "func.func @main(%y: tensor<f32>, %x: tensor<2x1xf32>) "
        "-> tensor<2x1xf32> {\n"
        "  %z = stablehlo.add %x, %x : tensor<2x1xf32>\n"
        "  return %z : tensor<2x1xf32>\n"
        "}",
        "mlir");
  }

  // What is wrong with a call, "" if nothing is.
  static std::string Refusal(const Array& x) {
    const Array y = {{Named("f32"), {}}, BytesOf({1})};
    try {
      Doubled().Run({&y, &x});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(ProgramTest, RunsOnArraysOfTheHost) {
  const Array y = {{Named("f32"), {}}, BytesOf({1})};
  const Array x = {{Named("f32"), {2, 1}}, BytesOf({3, 5})};
  const std::vector<Array> results = Doubled().Run({&y, &x});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].shape.Text(), "f32[2,1]");
  EXPECT_EQ(results[0].bytes, BytesOf({6, 10}));
}

TEST_F(ProgramTest, RefusesBytesThatDoNotFillTheShape) {
  const Shape shape = {Named("f32"), {2, 1}};
  EXPECT_EQ(Refusal({shape, BytesOf({3})}),
            "copying argument 1: expected 8 bytes for f32[2,1], got 4");
  EXPECT_EQ(Refusal({shape, BytesOf({3, 5, 7})}),
            "copying argument 1: expected 8 bytes for f32[2,1], got 12");
  EXPECT_EQ(Refusal({shape, ""}),
            "copying argument 1: expected 8 bytes for f32[2,1], got 0");
  EXPECT_EQ(Refusal({{Named("f32"), {2, -1}}, BytesOf({3, 5})}),
            "copying argument 1: expected sizes of 0 or more, got f32[2,-1]");
}

TEST_F(ProgramTest, XlaRefusesAnotherShape) {
  EXPECT_NE(Refusal({{Named("f32"), {3, 1}}, BytesOf({3, 5, 7})}), "");
}

}  // namespace
}  // namespace xla_ffi_kit::pjrt
