#include "xla_ffi/testing/call_frame.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
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

CallFrame& CallFrame::Arg(XLA_FFI_DataType dtype, void* data, Dims dims) {
  args_.push_back({dtype, data, std::move(dims)});
  return *this;
}

CallFrame& CallFrame::Ret(XLA_FFI_DataType dtype, void* data, Dims dims) {
  rets_.push_back({dtype, data, std::move(dims)});
  return *this;
}

CallFrame& CallFrame::Scalar(const std::string& name, XLA_FFI_DataType dtype,
                             const void* value, size_t size) {
  attrs_[name] = {XLA_FFI_AttrType_SCALAR, dtype,
                  std::string(static_cast<const char*>(value), size)};
  return *this;
}

CallFrame& CallFrame::Attr(const std::string& name, double value) {
  return Scalar(name, XLA_FFI_DataType_F64, &value, sizeof(value));
}

CallFrame& CallFrame::Attr(const std::string& name, float value) {
  return Scalar(name, XLA_FFI_DataType_F32, &value, sizeof(value));
}

CallFrame& CallFrame::Attr(const std::string& name, int64_t value) {
  return Scalar(name, XLA_FFI_DataType_S64, &value, sizeof(value));
}

CallFrame& CallFrame::Attr(const std::string& name, const char* value) {
  attrs_[name] = {XLA_FFI_AttrType_STRING, XLA_FFI_DataType_INVALID, value};
  return *this;
}

CallFrame& CallFrame::Threads(int64_t threads) {
  threads_ = threads;
  return *this;
}

std::vector<XLA_FFI_Buffer> CallFrame::Encode(std::vector<Buffer>& buffers) {
  std::vector<XLA_FFI_Buffer> encoded;
  for (Buffer& buffer : buffers) {
    encoded.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, buffer.dtype,
                       buffer.data, static_cast<int64_t>(buffer.dims.size()),
                       buffer.dims.data()});
  }
  return encoded;
}

Status CallFrame::Run(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage) {
  XLA_FFI_CallFrame frame = EmptyFrame();
  frame.stage = stage;
  FakeContext context;
  context.num_threads = threads_;
  frame.ctx = reinterpret_cast<XLA_FFI_ExecutionContext*>(&context);

  std::vector<XLA_FFI_Buffer> args = Encode(args_);
  std::vector<XLA_FFI_ArgType> arg_types(args.size(), XLA_FFI_ArgType_BUFFER);
  std::vector<void*> arg_pointers;
  for (XLA_FFI_Buffer& buffer : args) arg_pointers.push_back(&buffer);
  frame.args.size = static_cast<int64_t>(args.size());
  frame.args.types = arg_types.data();
  frame.args.args = arg_pointers.data();

  std::vector<XLA_FFI_Buffer> rets = Encode(rets_);
  std::vector<XLA_FFI_RetType> ret_types(rets.size(), XLA_FFI_RetType_BUFFER);
  std::vector<void*> ret_pointers;
  for (XLA_FFI_Buffer& buffer : rets) ret_pointers.push_back(&buffer);
  frame.rets.size = static_cast<int64_t>(rets.size());
  frame.rets.types = ret_types.data();
  frame.rets.rets = ret_pointers.data();

  // Reserved up front: the frame keeps pointers to the elements.
  std::vector<XLA_FFI_ByteSpan> names, strings;
  std::vector<XLA_FFI_Scalar> scalars;
  names.reserve(attrs_.size());
  strings.reserve(attrs_.size());
  scalars.reserve(attrs_.size());
  std::vector<XLA_FFI_AttrType> attr_types;
  std::vector<XLA_FFI_ByteSpan*> name_pointers;
  std::vector<void*> attr_pointers;
  for (auto& [name, attr] : attrs_) {
    names.push_back({name.data(), name.size()});
    name_pointers.push_back(&names.back());
    attr_types.push_back(attr.type);
    if (attr.type == XLA_FFI_AttrType_SCALAR) {
      scalars.push_back({attr.dtype, attr.bytes.data()});
      attr_pointers.push_back(&scalars.back());
    } else {
      strings.push_back({attr.bytes.data(), attr.bytes.size()});
      attr_pointers.push_back(&strings.back());
    }
  }
  frame.attrs.size = static_cast<int64_t>(attrs_.size());
  frame.attrs.types = attr_types.data();
  frame.attrs.names = name_pointers.data();
  frame.attrs.attrs = attr_pointers.data();

  return TakeStatus(handler(&frame));
}

}  // namespace xla_ffi_kit::testing
