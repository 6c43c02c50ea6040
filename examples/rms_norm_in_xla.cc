// Calls an operation of the kit from a C++ program that uses XLA, no Python.
//
// Depends on //xla_ffi/registry:register_cpu, which registers the handlers when
// the program starts.

#include <cstdio>
#include <memory>

#include "xla/client/client_library.h"
#include "xla/client/local_client.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/literal_util.h"
#include "xla/shape_util.h"

int main() {
  // [README]
  const xla::Shape shape = xla::ShapeUtil::MakeShape(xla::F32, {1, 2});
  xla::XlaBuilder builder("example");
  xla::XlaOp x = xla::Parameter(&builder, 0, shape, "x");
  xla::CustomCall(&builder, "xla_ffi_kit.rms_norm", {x}, shape,
                  /*opaque=*/"{eps = 1.0e-6 : f64}", false, {}, nullptr,
                  xla::CustomCallSchedule::SCHEDULE_NONE,
                  xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  xla::LocalClient* client = xla::ClientLibrary::LocalClientOrDie();
  auto input = xla::LiteralUtil::CreateR2<float>({{3, 4}});
  auto argument = client->TransferToServer(input).value();
  auto y = client->ExecuteAndTransfer(*builder.Build(), {argument.get()});
  // [README]
  if (!y.ok()) {
    std::fprintf(stderr, "%s\n", y.status().ToString().c_str());
    return 1;
  }
  const float first = y->Get<float>({0, 0}), second = y->Get<float>({0, 1});
  std::printf("rms_norm([3, 4]) = [%f, %f]\n", first, second);
  // 3 and 4 over sqrt((9 + 16) / 2).
  const bool right = first > 0.8485f && first < 0.8486f &&  //
                     second > 1.1313f && second < 1.1314f;
  return right ? 0 : 1;
}
