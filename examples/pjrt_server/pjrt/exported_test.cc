// Files of jax.export, whole, cut off and damaged.

#include "examples/pjrt_server/pjrt/exported.h"

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit::pjrt {
namespace {

// The program that the release exported, one of the files that TESTDATA names.
std::string Read(const std::string& release) {
  const std::string suffix = "/jax_" + release + "/program";
  std::istringstream paths(std::getenv("TESTDATA"));
  for (std::string path; paths >> path;) {
    if (path.size() < suffix.size() ||
        path.substr(path.size() - suffix.size()) != suffix) {
      continue;
    }
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  throw std::runtime_error("TESTDATA: no file *" + suffix);
}

class ExportedTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ExportedTest, WholeFile) {
  const Exported exported = ParseExported(Read(GetParam()));
  EXPECT_EQ(exported.name, "model");
  std::string inputs;
  for (const Shape& shape : exported.inputs) inputs += shape.Text() + " ";
  EXPECT_EQ(inputs, "f32[8] f32[16,24] f32[16] f32[4,16] s32[3] ");
  EXPECT_EQ(exported.kept, (std::vector<uint16_t>{0, 1, 2, 3}));
  // The first bytes of MLIR bytecode.
  EXPECT_EQ(exported.mlir.substr(0, 4), "ML\xefR");
}

TEST_P(ExportedTest, EveryShorterFileIsRefused) {
  const std::string file = Read(GetParam());
  // The last bytes are padding, which nothing refers to.
  for (size_t size = 0; size + 8 <= file.size(); ++size) {
    EXPECT_THROW(ParseExported(file.substr(0, size)), Error) << size;
  }
}

// It is read as something else, or refused: never beyond its end.
TEST_P(ExportedTest, DamagedFileIsReadWithinItsBounds) {
  const std::string file = Read(GetParam());
  size_t refused = 0;
  for (size_t i = 0; i < file.size(); ++i) {
    for (const char damage : {'\x01', '\x80', '\xff'}) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(damaged[i] ^ damage);
      try {
        ParseExported(damaged);
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 20u);
}

TEST_P(ExportedTest, AnotherFileIsRefused) {
  for (const std::string& other :
       {std::string(), std::string(1000, '\0'), std::string(1000, '\xff'),
        std::string("module @jit_model { }"),
        ParseExported(Read(GetParam())).mlir}) {
    EXPECT_THROW(ParseExported(other), Error) << other.substr(0, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Releases, ExportedTest,
                         ::testing::Values("0.10.2", "0.12.0.1"),
                         [](const auto& info) {
                           return info.index == 0 ? "Jax0_10" : "Jax0_12";
                         });

}  // namespace
}  // namespace xla_ffi_kit::pjrt
