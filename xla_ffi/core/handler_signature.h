// What a handler takes and returns, as data: what its handler table gives to
// whoever loads a library, in C, C++ and (through ctypes) Python.
//
// The layout rule is that of the handler table: fields are only ever added at
// the end of a struct, and a reader strides by `argument_size` and
// `attribute_size`. How one is written is in signature.h.

#ifndef XLA_FFI_CORE_HANDLER_SIGNATURE_H_
#define XLA_FFI_CORE_HANDLER_SIGNATURE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// An operand or a result. Arguments are numbered from the first operand on,
// results after operands.
typedef struct XlaFfiKit_Argument {
  const char* place;       // "operand x", as errors name it
  const int32_t* dtypes;   // XLA_FFI_DataType: those it may have; null if
  size_t num_dtypes;       // `dtype_of` says, or if any will do
  const char* dtype_text;  // why it has that dtype; null: "like <dtype_of>"
  int32_t dtype_of;        // the argument whose dtype it has, or -1
  int32_t min_rank, max_rank;
  int32_t shape_of;        // the argument whose shape it has, or -1
  int32_t is_but_last;     // but for the last axis
  const char* last;        // the attribute that the last axis is, or null
  const char* shape_text;  // why it has that shape; null: "like <shape_of>"
} XlaFfiKit_Argument;

typedef struct XlaFfiKit_Attribute {
  const char* name;
  int32_t type;   // XLA_FFI_AttrType: a scalar, an array or a string
  int32_t dtype;  // XLA_FFI_DataType, of scalars and arrays
  int64_t size;   // of an array; -1: any
  // Bounds of an integer, or of each of an array; none if min > max.
  int64_t min, max;
  const char* max_text;      // as errors have `max`, or null
  int32_t axis_of;           // the argument of which it is an axis, or -1
  const char* const* words;  // of which a string is one, or null
  size_t num_words;
} XlaFfiKit_Attribute;

typedef struct XlaFfiKit_Signature {
  size_t struct_size;     // sizeof(XlaFfiKit_Signature) of the library
  size_t argument_size;   // sizeof(XlaFfiKit_Argument) of the library
  size_t attribute_size;  // sizeof(XlaFfiKit_Attribute) of the library
  const char* operation;  // as errors name it: its custom call target
  size_t num_operands;
  size_t num_results;
  const XlaFfiKit_Argument* arguments;
  size_t num_attributes;
  const XlaFfiKit_Attribute* attributes;  // by name, as the FFI sorts them
} XlaFfiKit_Signature;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // XLA_FFI_CORE_HANDLER_SIGNATURE_H_
