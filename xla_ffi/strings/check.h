// Checks a call against the parameters of a handler's functions: code that is
// no template, and so compiled once for all dtypes.

#ifndef XLA_FFI_STRINGS_CHECK_H_
#define XLA_FFI_STRINGS_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_signature.h"
#include "xla_ffi/strings/types.h"

// Error paths are compiled for size, which takes half the time.
#define KIT_COLD __attribute__((cold, noinline))

namespace kit {

// The shape of an operand or a result, as in a signature, and its sizes: "(...,
// a)" and 1. Sizes are called a, b, c, in the order of all that there are.
struct Shape {
  const char* text;  // null: any
  XlaFfiKit_Batch batch;
  int64_t num_sizes;
};

inline constexpr int32_t kSizeNumbers[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,
                                           9,  10, 11, 12, 13, 14, 15, 16, 17,
                                           18, 19, 20, 21, 22, 23, 24, 25};
inline constexpr auto kSizes = [] {
  struct {
    XlaFfiKit_Size of[sizeof(kSizeNumbers) / sizeof(kSizeNumbers[0])];
  } sizes = {};
  for (const int32_t i : kSizeNumbers) {
    sizes.of[i] = {&"abcdefghijklmnopqrstuvwxyz"[i], 1, 0, INT64_MAX, -1};
  }
  return sizes;
}();

// A message of limited length, without <string>.
class Text {
 public:
  KIT_COLD Text& operator<<(std::string_view text) {
    for (const char c : text) {
      if (size_ + 1 < sizeof(text_)) text_[size_++] = c;
    }
    return *this;
  }
  KIT_COLD Text& operator<<(int64_t number) {
    if (number >= 10) *this << number / 10;
    const char digit = static_cast<char>('0' + number % 10);
    return *this << std::string_view(&digit, 1);
  }
  // A text that is too long ends before its last character of several bytes in
  // UTF-8, which may be cut, and of which Python would then make another error.
  KIT_COLD const char* c_str() {
    const auto ends_with = [this](int mask, int bits) {
      return size_ > 0 && (text_[size_ - 1] & mask) == bits;
    };
    if (size_ + 1 == sizeof(text_)) {
      while (ends_with(0xc0, 0x80)) --size_;
      if (ends_with(0x80, 0x80)) --size_;
    }
    text_[size_] = 0;
    return text_;
  }

 private:
  char text_[1024];
  size_t size_ = 0;
};

KIT_COLD inline XLA_FFI_Error* MakeError(const XLA_FFI_CallFrame* frame,
                                         Text& text) {
  XLA_FFI_Error_Create_Args args = {};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = text.c_str();
  args.errc = XLA_FFI_Error_Code_INVALID_ARGUMENT;
  return frame->api->XLA_FFI_Error_Create(&args);
}

// Whether XLA asks what the handler was built with, and is answered.
KIT_COLD inline bool AnswersMetadata(const XLA_FFI_CallFrame* frame) {
  auto* extension =
      reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
  if (extension == nullptr ||
      extension->extension_base.type != XLA_FFI_Extension_Metadata) {
    return false;
  }
  XLA_FFI_Metadata* metadata = extension->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  metadata->traits = 0;
  metadata->state_type_id = XLA_FFI_UNKNOWN_TYPE_ID;
  return true;
}

// The error of a call with more or fewer values than the signature.
KIT_COLD inline XLA_FFI_Error* CountsError(
    const XLA_FFI_CallFrame* frame, const XlaFfiKit_Signature& signature) {
  Text text;
  text << signature.operation << ": call: expected " << signature.num_operands
       << " operands, " << signature.num_results << " results and "
       << signature.num_attributes << " attributes, got " << frame->args.size
       << ", " << frame->rets.size << " and " << frame->attrs.size;
  return MakeError(frame, text);
}

KIT_COLD inline XLA_FFI_Error* AttributeError(
    const XLA_FFI_CallFrame* frame, const XlaFfiKit_Signature& signature,
    size_t i) {
  const XlaFfiKit_Attribute& attribute = signature.attributes[i];
  const XLA_FFI_ByteSpan* span = frame->attrs.names[i];
  const std::string_view name(span->ptr, span->len);
  Text text;
  text << signature.operation << ": attribute " << attribute.name
       << ": expected ";
  if (attribute.type == XLA_FFI_AttrType_STRING) {
    text << "a string";
  } else {
    const bool is_array = attribute.type == XLA_FFI_AttrType_ARRAY;
    text << TypeName(attribute.dtype) << (is_array ? " array" : " scalar");
  }
  text << ", got " << (name == attribute.name ? "another type" : name);
  return MakeError(frame, text);
}

// Whether a span is that text. (To measure the text, which is a constant, makes
// g++ 12 warn.)
inline bool IsText(const XLA_FFI_ByteSpan& span, const char* text) {
  for (size_t i = 0; i < span.len; ++i) {
    if (text[i] == 0 || span.ptr[i] != text[i]) return false;
  }
  return text[span.len] == 0;
}

// Whether an attribute of the call has the type that the signature gives it.
inline bool Fits(XLA_FFI_AttrType type, const void* value,
                 const XlaFfiKit_Attribute& attribute) {
  if (type != attribute.type) return false;
  if (type == XLA_FFI_AttrType_STRING) return true;
  return attribute.dtype ==
         (type == XLA_FFI_AttrType_SCALAR
              ? static_cast<const XLA_FFI_Scalar*>(value)->dtype
              : static_cast<const XLA_FFI_Array*>(value)->dtype);
}

inline const XLA_FFI_Buffer& BufferOf(const XLA_FFI_CallFrame* frame,
                                      size_t i) {
  const size_t operands = frame->args.size;
  return *static_cast<const XLA_FFI_Buffer*>(
      i < operands ? frame->args.args[i] : frame->rets.rets[i - operands]);
}

KIT_COLD inline XLA_FFI_Error* ShapeError(const XLA_FFI_CallFrame* frame,
                                          const XlaFfiKit_Signature& signature,
                                          size_t i) {
  const XLA_FFI_Buffer& buffer = BufferOf(frame, i);
  Text text;
  text << signature.operation
       << (i < signature.num_operands ? ": operand " : ": result ")
       << signature.arguments[i].name << ": expected shape "
       << signature.arguments[i].shape
       << ", with the batch axes of those before it, got shape (";
  for (int64_t axis = 0; axis < buffer.rank; ++axis) {
    text << (axis == 0 ? "" : ", ") << buffer.dims[axis];
  }
  text << ")";
  return MakeError(frame, text);
}

// Whether an argument has the axes of its shape, and after the first one with
// batch axes the same ones.
inline bool HasShape(const XLA_FFI_Buffer& buffer,
                     const XlaFfiKit_Argument& argument, const int64_t*& batch,
                     int64_t& batch_axes) {
  const int64_t axes = buffer.rank - static_cast<int64_t>(argument.num_sizes);
  if (argument.batch == XlaFfiKit_Batch_NONE) return axes == 0;
  if (batch_axes < 0) {
    batch = buffer.dims;
    batch_axes = axes;
    return axes >= 0;
  }
  if (axes != batch_axes) return false;
  for (int64_t i = 0; i < axes; ++i) {
    if (buffer.dims[i] != batch[i]) return false;
  }
  return true;
}

// Null, or an error if the call has not the operands, results and attributes
// of the signature; their dtypes are left to TakesBuffers().
inline XLA_FFI_Error* CheckCall(const XLA_FFI_CallFrame* frame,
                                const XlaFfiKit_Signature& signature) {
  const XLA_FFI_Attrs& got = frame->attrs;
  if (static_cast<size_t>(frame->args.size) != signature.num_operands ||
      static_cast<size_t>(frame->rets.size) != signature.num_results ||
      static_cast<size_t>(got.size) != signature.num_attributes) {
    return CountsError(frame, signature);
  }
  for (size_t i = 0; i < signature.num_attributes; ++i) {
    if (!IsText(*got.names[i], signature.attributes[i].name) ||
        !Fits(got.types[i], got.attrs[i], signature.attributes[i])) {
      return AttributeError(frame, signature, i);
    }
  }
  const int64_t* batch = nullptr;
  int64_t batch_axes = -1;
  for (size_t i = 0; i < signature.num_operands + signature.num_results; ++i) {
    const XlaFfiKit_Argument& argument = signature.arguments[i];
    if (argument.shape_form == XlaFfiKit_ShapeForm_SIZES &&
        !HasShape(BufferOf(frame, i), argument, batch, batch_axes)) {
      return ShapeError(frame, signature, i);
    }
  }
  return nullptr;
}

// Whether operands and results have the dtypes of an instance.
inline bool TakesBuffers(const XLA_FFI_CallFrame* frame,
                         const XlaFfiKit_Signature& signature,
                         int64_t instance) {
  for (size_t i = 0; i < signature.num_operands + signature.num_results; ++i) {
    const int32_t dtype = signature.arguments[i].dtypes[instance];
    if (BufferOf(frame, i).dtype != dtype) return false;
  }
  return true;
}

// Appends the types of an instance, or with -1 those of the call.
KIT_COLD inline void WriteTypes(Text& text, const XLA_FFI_CallFrame* frame,
                                const XlaFfiKit_Signature& signature,
                                int64_t instance) {
  for (size_t i = 0; i < signature.num_operands + signature.num_results; ++i) {
    if (i == signature.num_operands) text << (i == 0 ? "->" : " ->");
    text << (i == 0 ? "" : " ");
    text << TypeName(instance < 0 ? BufferOf(frame, i).dtype
                                  : signature.arguments[i].dtypes[instance]);
  }
}

// The error of a call that none of the handler's functions takes.
KIT_COLD inline XLA_FFI_Error* TypesError(
    const XLA_FFI_CallFrame* frame, const XlaFfiKit_Signature& signature) {
  Text text;
  text << signature.operation << ": types: expected ";
  for (size_t i = 0; i < signature.num_combinations; ++i) {
    text << (i == 0 ? "" : " or ");
    WriteTypes(text, frame, signature, static_cast<int64_t>(i));
  }
  text << ", got ";
  WriteTypes(text, frame, signature, -1);
  return MakeError(frame, text);
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_CHECK_H_
