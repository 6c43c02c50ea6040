#include "xla_ffi/runtime/images.h"

#include <string>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit::launch {
namespace {

// "a", "bc", "def" and "ptx" in base64.
constexpr char kCode[] =
    "sm_80 YQ==\nsm_86 YmM=\nsm_100 ZGVm\ncompute_75 eA==\ncompute_90 cHR4\n";

std::string Chosen(int major, int minor) {
  const auto image = ImageFor(kCode, major, minor);
  return image.has_value() ? *image : image.error().message();
}

TEST(ImagesTest, TheClosestMachineCodeWins) {
  EXPECT_EQ(Chosen(8, 0), "a");
  EXPECT_EQ(Chosen(8, 6), "bc");
  EXPECT_EQ(Chosen(8, 9), "bc");
  EXPECT_EQ(Chosen(10, 0), "def");
  EXPECT_EQ(Chosen(10, 3), "def");
}

TEST(ImagesTest, WithoutAnyTheNewestPtx) {
  EXPECT_EQ(Chosen(7, 5), "x");
  EXPECT_EQ(Chosen(9, 0), "ptx");
  EXPECT_EQ(Chosen(12, 0), "ptx");
}

TEST(ImagesTest, SaysWhatThereIs) {
  EXPECT_EQ(Chosen(7, 0),
            "code: expected some for this GPU, of compute capability 7.0, got "
            "sm_80, sm_86, sm_100, compute_75, compute_90; export the program "
            "again on a machine with such a GPU");
  EXPECT_NE(ImageFor("", 9, 0).error().message().find("got none"),
            std::string::npos);
}

TEST(ImagesTest, EveryByte) {
  const auto image = ImageFor("sm_90 AP+A/wE=", 9, 0);
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(*image, std::string("\x00\xff\x80\xff\x01", 5));
}

TEST(ImagesTest, RefusesNonsense) {
  for (const char* code : {"sm_90 YQ?=", "sm_90 ", "sm_90"}) {
    EXPECT_EQ(ImageFor(code, 9, 0).error().message(),
              "code: expected base64, got something else; the program is "
              "damaged");
  }
  for (const char* code : {"sm_ YQ==", "sm_9x YQ==", "9 YQ==", "\n\n"}) {
    EXPECT_FALSE(ImageFor(code, 9, 0).has_value()) << code;
  }
}

}  // namespace
}  // namespace xla_ffi_kit::launch
