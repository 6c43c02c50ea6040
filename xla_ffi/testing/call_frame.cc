#include "xla_ffi/testing/call_frame.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/attributes.h"
#include "xla_ffi/testing/fake_api.h"

namespace xla_ffi_kit::testing {
namespace {

// Reads the error back, frees it, and turns it into a value.
Status TakeStatus(XLA_FFI_Error* error) {
  if (error == nullptr) return {};
  auto* fake = reinterpret_cast<FakeError*>(error);
  Status status = {fake->code, std::move(fake->message)};
  delete fake;
  return status;
}

XLA_FFI_CallFrame EmptyFrame() {
  XLA_FFI_CallFrame frame = {};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = FakeApi();
  frame.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
  frame.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
  frame.attrs.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
  return frame;
}

// Operands or results as the FFI's structs; refers to their dimensions.
template <typename Type>
struct EncodedBuffers {
  EncodedBuffers(std::vector<CallFrame::Buffer>& all, Type type)
      : types(all.size(), type) {
    for (CallFrame::Buffer& buffer : all) {
      buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, buffer.dtype,
                         buffer.data, static_cast<int64_t>(buffer.dims.size()),
                         buffer.dims.data()});
    }
    for (XLA_FFI_Buffer& buffer : buffers) pointers.push_back(&buffer);
  }

  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<Type> types;
  std::vector<void*> pointers;
};

Status CallHandler(XLA_FFI_Handler* handler, XLA_FFI_CallFrame& frame) {
  try {
    if (XLA_FFI_Error* error = handler(&frame)) return TakeStatus(error);
  } catch (const std::exception& exception) {
    return {XLA_FFI_Error_Code_UNKNOWN,
            std::string("XLA FFI call failed: ") + exception.what()};
  }
  if (frame.future == nullptr) return {};
  auto* future = reinterpret_cast<FakeFuture*>(frame.future);
  if (!future->Await()) {  // and is not deleted: it may yet be completed
    return {XLA_FFI_Error_Code_DEADLINE_EXCEEDED,
            "the handler's future is not complete after a minute"};
  }
  const Status status = TakeStatus(future->error);
  delete future;
  return status;
}

}  // namespace

Metadata GetMetadata(XLA_FFI_Handler* handler) {
  XLA_FFI_Metadata raw = {};
  raw.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
  XLA_FFI_Metadata_Extension extension = {};
  extension.extension_base.struct_size = XLA_FFI_Metadata_Extension_STRUCT_SIZE;
  extension.extension_base.type = XLA_FFI_Extension_Metadata;
  extension.metadata = &raw;
  XLA_FFI_CallFrame frame = EmptyFrame();
  frame.extension_start = &extension.extension_base;

  Metadata metadata;
  metadata.status = TakeStatus(handler(&frame));
  metadata.major_version = raw.api_version.major_version;
  metadata.minor_version = raw.api_version.minor_version;
  metadata.traits = raw.traits;
  metadata.state_type_id = raw.state_type_id.type_id;
  return metadata;
}

Status RegisterType(const std::string& name, XLA_FFI_TypeId* id,
                    const XLA_FFI_TypeInfo* info) {
  return TakeStatus(xla::ffi::Ffi::RegisterTypeId(FakeApi(), name, id, info));
}

CallFrame& CallFrame::Arg(XLA_FFI_DataType dtype, void* data, Dims dims) {
  args_.push_back({dtype, data, std::move(dims)});
  return *this;
}

CallFrame& CallFrame::Ret(XLA_FFI_DataType dtype, void* data, Dims dims) {
  rets_.push_back({dtype, data, std::move(dims)});
  return *this;
}

CallFrame& CallFrame::PointerAttr(const std::string& name,
                                  const void* pointer) {
  attributes_.SetPointer(name, pointer);
  return *this;
}

CallFrame& CallFrame::Threads(int64_t threads) {
  threads_ = threads;
  return *this;
}

CallFrame& CallFrame::Stream(void* stream) {
  stream_ = stream;
  return *this;
}

CallFrame& CallFrame::Scratch(size_t bytes) {
  scratch_bytes_ = bytes;
  return *this;
}

CallFrame& CallFrame::RunId(int64_t run_id) {
  run_id_ = run_id;
  return *this;
}

CallFrame& CallFrame::DeviceOrdinal(int32_t ordinal) {
  device_ordinal_ = ordinal;
  return *this;
}

CallFrame& CallFrame::State(HandlerState& state) {
  state_ = &state;
  return *this;
}

Status CallFrame::Run(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage) {
  XLA_FFI_CallFrame frame = EmptyFrame();
  frame.stage = stage;
  FakeContext context;
  context.num_threads = threads_;
  context.stream = stream_;
  context.scratch_bytes = scratch_bytes_;
  context.run_id = run_id_;
  context.device_ordinal = device_ordinal_;
  context.user_data = user_data_;
  context.state = state_;
  frame.ctx = reinterpret_cast<XLA_FFI_ExecutionContext*>(&context);

  EncodedBuffers<XLA_FFI_ArgType> args(args_, XLA_FFI_ArgType_BUFFER);
  frame.args.size = static_cast<int64_t>(args_.size());
  frame.args.types = args.types.data();
  frame.args.args = args.pointers.data();

  EncodedBuffers<XLA_FFI_RetType> rets(rets_, XLA_FFI_RetType_BUFFER);
  frame.rets.size = static_cast<int64_t>(rets_.size());
  frame.rets.types = rets.types.data();
  frame.rets.rets = rets.pointers.data();

  const EncodedAttributes attributes(attributes_);
  frame.attrs = attributes.attrs();

  return CallHandler(handler, frame);
}

}  // namespace xla_ffi_kit::testing
