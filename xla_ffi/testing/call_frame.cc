#include "xla_ffi/testing/call_frame.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/fake_api.h"

namespace xla_ffi_kit::testing {

// The FFI's structs for `attributes`, which must outlive this.
class EncodedAttributes {
 public:
  explicit EncodedAttributes(const Attributes& attributes);
  EncodedAttributes(const EncodedAttributes&) = delete;
  EncodedAttributes& operator=(const EncodedAttributes&) = delete;

  const XLA_FFI_Attrs& attrs() const { return attrs_; }

 private:
  void* Encode(const Attributes::Value& value);

  // Deques: their elements stay where they are.
  std::deque<XLA_FFI_ByteSpan> spans_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::deque<XLA_FFI_Array> arrays_;
  std::vector<std::unique_ptr<EncodedAttributes>> dictionaries_;
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<XLA_FFI_ByteSpan*> names_;
  std::vector<void*> values_;
  XLA_FFI_Attrs attrs_ = {};
};

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

Attributes& Attributes::Set(const std::string& name, XLA_FFI_AttrType type,
                            XLA_FFI_DataType dtype, const void* bytes,
                            size_t size_bytes, size_t size) {
  Value value = {type, dtype, std::string(size_bytes, '\0'), size, nullptr};
  if (size_bytes > 0) {
    value.bytes.assign(static_cast<const char*>(bytes), size_bytes);
  }
  values_[name] = std::move(value);
  return *this;
}

Attributes& Attributes::Set(const std::string& name, Attributes dictionary) {
  values_[name] = {XLA_FFI_AttrType_DICTIONARY, XLA_FFI_DataType_INVALID, "", 0,
                   std::make_shared<Attributes>(std::move(dictionary))};
  return *this;
}

Attributes& Attributes::Remove(const std::string& name) {
  values_.erase(name);
  return *this;
}

std::vector<std::string> Attributes::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) names.push_back(name);
  return names;
}

int64_t Attributes::Integer(const std::string& name) const {
  int64_t number = 0;
  std::memcpy(&number, values_.at(name).bytes.data(), sizeof(number));
  return number;
}

EncodedAttributes::EncodedAttributes(const Attributes& attributes) {
  for (const auto& [name, value] : attributes.values_) {
    spans_.push_back({name.data(), name.size()});
    names_.push_back(&spans_.back());
    types_.push_back(value.type);
    values_.push_back(Encode(value));
  }
  attrs_.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
  attrs_.size = static_cast<int64_t>(names_.size());
  attrs_.types = types_.data();
  attrs_.names = names_.data();
  attrs_.attrs = values_.data();
}

void* EncodedAttributes::Encode(const Attributes::Value& value) {
  // The FFI's structs are not const-correct; nobody writes through them.
  char* bytes = const_cast<char*>(value.bytes.data());
  switch (value.type) {
    case XLA_FFI_AttrType_SCALAR:
      scalars_.push_back({value.dtype, bytes});
      return &scalars_.back();
    case XLA_FFI_AttrType_ARRAY:
      arrays_.push_back({value.dtype, value.size, bytes});
      return &arrays_.back();
    case XLA_FFI_AttrType_STRING:
      spans_.push_back({bytes, value.size});
      return &spans_.back();
    default:
      dictionaries_.push_back(
          std::make_unique<EncodedAttributes>(*value.dictionary));
      return &dictionaries_.back()->attrs_;
  }
}

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

Status CallFrame::Run(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage) {
  XLA_FFI_CallFrame frame = EmptyFrame();
  frame.stage = stage;
  FakeContext context(context_);
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
