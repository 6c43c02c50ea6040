// Checks a call against the parameters of a handler's functions: code that is
// no template, and so compiled once for all dtypes.

#ifndef XLA_FFI_INLINE_CHECK_H_
#define XLA_FFI_INLINE_CHECK_H_

#include <cstdint>
#include <string_view>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/inline/parameters.h"

// Error paths are compiled for size, which takes half the time.
#define KIT_COLD __attribute__((cold, noinline))

namespace kit {

struct Attribute {
  std::string_view name;
  int64_t place;  // in a call: XLA sorts attributes by name
};

// The parameters of a handler. The types in `codes` are those of its first
// function.
struct Signature {
  std::string_view operation;
  int64_t num_operands;
  int64_t num_results;
  int64_t num_attributes;
  const Attribute* attributes;
  const Code* codes;
};

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
  const char* c_str() {
    text_[size_] = 0;
    for (auto* c = reinterpret_cast<unsigned char*>(text_); *c != 0;) {
      const int size = SizeOfCharacter(c);
      if (size == 0) *c = '?';
      c += size == 0 ? 1 : size;
    }
    return text_;
  }

 private:
  // Bytes of the character in UTF-8 at `c`, or 0 if there is none, of which
  // Python would make another error.
  KIT_COLD static int SizeOfCharacter(const unsigned char* c) {
    if (*c < 0x80) return 1;
    const int size = *c < 0xc2 ? 0 : *c < 0xe0 ? 2 : *c < 0xf0 ? 3 : 4;
    if (*c > 0xf4) return 0;
    for (int i = 1; i < size; ++i) {
      if ((c[i] & 0xc0) != 0x80) return 0;
    }
    // Longer than need be, a surrogate, or beyond the last character.
    const int begin = c[0] << 8 | c[1];
    const bool is_none = begin < 0xe0a0 ? size == 3
                         : size == 3    ? begin >= 0xeda0 && begin < 0xee00
                                        : begin < 0xf090 || begin >= 0xf490;
    return size > 2 && is_none ? 0 : size;
  }

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
KIT_COLD inline XLA_FFI_Error* CountsError(const XLA_FFI_CallFrame* frame,
                                           const Signature& wanted) {
  Text text;
  text << wanted.operation << ": call: expected " << wanted.num_operands
       << " operands, " << wanted.num_results << " results and "
       << wanted.num_attributes << " attributes, got " << frame->args.size
       << ", " << frame->rets.size << " and " << frame->attrs.size;
  return MakeError(frame, text);
}

KIT_COLD inline XLA_FFI_Error* AttributeError(const XLA_FFI_CallFrame* frame,
                                              const Signature& wanted,
                                              const Attribute& attribute,
                                              Code code) {
  const XLA_FFI_ByteSpan* span = frame->attrs.names[attribute.place];
  const std::string_view found(span->ptr, span->len);
  Text text;
  text << wanted.operation << ": attribute " << attribute.name << ": expected ";
  if (code.kind == Code::kString) {
    text << "a string";
  } else {
    text << TypeName(code.type - '0')
         << (code.kind == Code::kArray ? " array" : " scalar");
  }
  text << ", got " << (found == attribute.name ? "another type" : found);
  return MakeError(frame, text);
}

// Whether an attribute is what `code` stands for.
inline bool Fits(XLA_FFI_AttrType kind, const void* value, Code code) {
  const int type = code.type - '0';
  switch (code.kind) {
    case Code::kScalar:
      return kind == XLA_FFI_AttrType_SCALAR &&
             static_cast<const XLA_FFI_Scalar*>(value)->dtype == type;
    case Code::kArray:
      return kind == XLA_FFI_AttrType_ARRAY &&
             static_cast<const XLA_FFI_Array*>(value)->dtype == type;
    default:
      return kind == XLA_FFI_AttrType_STRING;
  }
}

// Null, or an error if the call has not the operands, results and attributes
// of the signature; their types are left to TakesBuffers().
inline XLA_FFI_Error* CheckCall(const XLA_FFI_CallFrame* frame,
                                const Signature& wanted) {
  const XLA_FFI_Attrs& got = frame->attrs;
  if (frame->args.size != wanted.num_operands ||
      frame->rets.size != wanted.num_results ||
      got.size != wanted.num_attributes) {
    return CountsError(frame, wanted);
  }
  const Attribute* attribute = wanted.attributes;
  for (const Code* code = wanted.codes; code->kind != Code::kEnd; ++code) {
    if (!code->is_attribute()) continue;
    const auto& [name, place] = *attribute;
    const XLA_FFI_ByteSpan* found = got.names[place];
    if (name != std::string_view(found->ptr, found->len) ||
        !Fits(got.types[place], got.attrs[place], *code)) {
      return AttributeError(frame, wanted, *attribute, *code);
    }
    ++attribute;
  }
  return nullptr;
}

inline int BufferType(void* const* buffers, int64_t i) {
  return static_cast<const XLA_FFI_Buffer*>(buffers[i])->dtype;
}

// Whether operands and results have the types that `codes` wants.
inline bool TakesBuffers(const XLA_FFI_CallFrame* frame, const Code* codes) {
  int64_t operand = 0, result = 0;
  for (; codes->kind != Code::kEnd; ++codes) {
    const int type = codes->type - '0';
    if (codes->kind == Code::kOperand &&
        BufferType(frame->args.args, operand++) != type) {
      return false;
    }
    if (codes->kind == Code::kResult &&
        BufferType(frame->rets.rets, result++) != type) {
      return false;
    }
  }
  return true;
}

// "f32 -> f32": the types of a call's operands and results, or with `wanted`
// those of a function's parameters.
KIT_COLD inline void WriteTypes(Text& text, const XLA_FFI_CallFrame* frame,
                                const Code* codes, bool wanted) {
  for (const Code::Kind kind : {Code::kOperand, Code::kResult}) {
    const bool is_operand = kind == Code::kOperand;
    void* const* buffers = is_operand ? frame->args.args : frame->rets.rets;
    if (!is_operand) text << " ->";
    int64_t i = 0;
    for (const Code* code = codes; code->kind != Code::kEnd; ++code) {
      if (code->kind != kind) continue;
      text << (is_operand && i == 0 ? "" : " ");
      text << TypeName(wanted ? code->type - '0' : BufferType(buffers, i));
      ++i;
    }
  }
}

// The error of a call that none of the handler's functions takes.
KIT_COLD inline XLA_FFI_Error* TypesError(const XLA_FFI_CallFrame* frame,
                                          const Signature& wanted,
                                          const Code* const* functions,
                                          int64_t count) {
  Text text;
  text << wanted.operation << ": types: expected ";
  for (int64_t i = 0; i < count; ++i) {
    text << (i == 0 ? "" : " or ");
    WriteTypes(text, frame, functions[i], true);
  }
  text << ", got ";
  WriteTypes(text, frame, wanted.codes, false);
  return MakeError(frame, text);
}

}  // namespace kit

#endif  // XLA_FFI_INLINE_CHECK_H_
