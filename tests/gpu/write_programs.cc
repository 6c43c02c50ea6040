// Writes programs made with XlaBuilder, as serialized HloModuleProtos.
//
//   write_programs MODULAR_ADD.hlo RMS_NORM.hlo
//
// Handlers have the same target on each platform, so that one program is for
// all of them.

#include <fstream>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace {

using xla::F32;
using xla::Shape;
using xla::ShapeUtil;

xla::XlaOp Call(xla::XlaBuilder& builder, const std::string& target,
                const std::vector<xla::XlaOp>& operands, const Shape& result,
                const std::string& attributes) {
  return xla::CustomCall(&builder, target, operands, result, attributes,
                         /*has_side_effect=*/false,
                         /*output_operand_aliasing=*/{}, /*literal=*/nullptr,
                         xla::CustomCallSchedule::SCHEDULE_NONE,
                         xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
}

// The example of XLA's page on custom calls: a[i] = b[i % 128] + c[i].
void ModularAdd(xla::XlaBuilder& builder) {
  const Shape b = ShapeUtil::MakeShape(F32, {128});
  const Shape c = ShapeUtil::MakeShape(F32, {2048});
  Call(builder, "xla_ffi_kit.modular_add",
       {xla::Parameter(&builder, 0, b, "b"),
        xla::Parameter(&builder, 1, c, "c")},
       c, "");
}

// (y, scale) of 33 rows of 1024.
void RmsNorm(xla::XlaBuilder& builder) {
  const Shape rows = ShapeUtil::MakeShape(F32, {33, 1024});
  const Shape scale = ShapeUtil::MakeShape(F32, {33});
  Call(builder, "xla_ffi_kit.rms_norm",
       {xla::Parameter(&builder, 0, rows, "x"),
        xla::Parameter(&builder, 1, ShapeUtil::MakeShape(F32, {1024}), "w")},
       ShapeUtil::MakeTupleShape({rows, scale}), "{eps = 0.5 : f32}");
}

void Write(void (*build)(xla::XlaBuilder&), const char* path) {
  xla::XlaBuilder builder("program");
  build(builder);
  const auto computation = builder.Build();
  CHECK_OK(computation.status());
  std::string bytes;
  CHECK(computation->proto().SerializeToString(&bytes));
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK_EQ(argc, 3);
  Write(ModularAdd, argv[1]);
  Write(RmsNorm, argv[2]);
  return 0;
}
