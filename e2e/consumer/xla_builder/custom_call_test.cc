// A[i] = B[i % 128] + C[i] as a custom call, in a codebase that has no XLA of
// its own: headers and labels are those of openxla/xla.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "xla/client/client_library.h"
#include "xla/client/local_client.h"
#include "xla/ffi/api/ffi.h"
#include "xla/ffi/ffi_api.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/literal.h"
#include "xla/shape_util.h"

namespace {

namespace ffi = xla::ffi;

ffi::Error DoCustomCall(ffi::Buffer<ffi::F32> b, ffi::Buffer<ffi::F32> c,
                        ffi::ResultBuffer<ffi::F32> a) {
  const size_t period = b.element_count();
  for (size_t i = 0; i < c.element_count(); ++i) {
    a->typed_data()[i] = b.typed_data()[i % period] + c.typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(handler, DoCustomCall,
                       ffi::Ffi::Bind()
                           .Arg<ffi::Buffer<ffi::F32>>()
                           .Arg<ffi::Buffer<ffi::F32>>()
                           .Ret<ffi::Buffer<ffi::F32>>());

XLA_FFI_REGISTER_HANDLER(ffi::GetXlaFfiApi(), "do_custom_call", "Host",
                         handler);

std::vector<float> Iota(int count) {
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

}  // namespace

int main() {
  const auto found = ffi::FindHandler("do_custom_call", "Host");
  if (!found.ok()) {
    std::fprintf(stderr, "%s\n", found.status().ToString().c_str());
    return 1;
  }
  xla::XlaBuilder builder("do_it");
  xla::XlaOp b = xla::ConstantR1<float>(&builder, Iota(128));
  xla::XlaOp c = xla::ConstantR1<float>(&builder, Iota(2048));
  xla::CustomCall(&builder, "do_custom_call", {b, c},
                  xla::ShapeUtil::MakeShape(xla::F32, {2048}),
                  /*opaque=*/"", /*has_side_effect=*/false,
                  /*output_operand_aliasing=*/{}, /*literal=*/nullptr,
                  xla::CustomCallSchedule::SCHEDULE_NONE,
                  xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  xla::LocalClient* client = xla::ClientLibrary::LocalClientOrDie();
  const auto a = client->ExecuteAndTransfer(*builder.Build(), {});
  if (!a.ok()) {
    std::fprintf(stderr, "%s\n", a.status().ToString().c_str());
    return 1;
  }
  for (int64_t i = 0; i < 2048; ++i) {
    if (a->Get<float>({i}) != static_cast<float>(i % 128 + i)) {
      std::fprintf(stderr, "element %d is wrong\n", static_cast<int>(i));
      return 1;
    }
  }
  return 0;
}
