// The kit's handlers, compiled with and linked to the codebase's own XLA,
// called from a computation made with XlaBuilder.

#include <cstdio>
#include <memory>

#include "xla/client/client_library.h"
#include "xla/client/local_client.h"
#include "xla/ffi/api/ffi.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/literal_util.h"
#include "xla/shape_util.h"

#ifndef XLA_OF_THE_CODEBASE
#error "these are not the headers of the codebase's own XLA"
#endif

int main() {
  const xla::Shape b = xla::ShapeUtil::MakeShape(xla::F32, {2});
  const xla::Shape c = xla::ShapeUtil::MakeShape(xla::F32, {5});
  xla::XlaBuilder builder("modular_add");
  xla::CustomCall(&builder, "xla_ffi_kit.modular_add",
                  {xla::Parameter(&builder, 0, b, "b"),
                   xla::Parameter(&builder, 1, c, "c")},
                  c, /*opaque=*/"", /*has_side_effect=*/false, {}, nullptr,
                  xla::CustomCallSchedule::SCHEDULE_NONE,
                  xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  xla::LocalClient* client = xla::ClientLibrary::LocalClientOrDie();
  auto repeated =
      client->TransferToServer(xla::LiteralUtil::CreateR1<float>({100, 200}));
  auto added = client->TransferToServer(
      xla::LiteralUtil::CreateR1<float>({0, 1, 2, 3, 4}));
  auto sum = client->ExecuteAndTransfer(builder.Build().value(),
                                        {repeated->get(), added->get()});
  if (!sum.ok()) {
    std::fprintf(stderr, "%s\n", sum.status().ToString().c_str());
    return 1;
  }
  const auto expected =
      xla::LiteralUtil::CreateR1<float>({100, 201, 102, 203, 104});
  std::printf("%s\n", sum->ToString().c_str());
  return *sum == expected ? 0 : 1;
}
