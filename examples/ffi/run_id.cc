// Who calls: the number of the run and of the device.
//
// examples.run_id: () -> (run s64[], device s32[]). All devices that take part
// in one execution see one run id: what collectives of one's own meet by. This
// handler takes the whole Context, and asks it for each; binding Ctx<RunId>()
// and Ctx<DeviceOrdinal>() is the shorter way where both are always wanted.

#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

ffi::Error Identify(ffi::Context context, ffi::ResultBufferR0<ffi::S64> run,
                    ffi::ResultBufferR0<ffi::S32> device) {
  const ffi::ErrorOr<ffi::RunId> run_id = context.get<ffi::RunId>();
  if (run_id.has_error()) return run_id.error();
  const ffi::ErrorOr<int32_t> ordinal = context.get<ffi::DeviceOrdinal>();
  if (ordinal.has_error()) return ordinal.error();
  *run->typed_data() = run_id->run_id;
  *device->typed_data() = *ordinal;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleRunId, Identify,
                              ffi::Ffi::Bind()
                                  .Ctx()                           // all of it
                                  .Ret<ffi::BufferR0<ffi::S64>>()  // run
                                  .Ret<ffi::BufferR0<ffi::S32>>());  // device
