// Signatures of handlers, which state what a handler takes and returns. C, C++
// and (through ctypes) Python read them from a library's handler table.
//
// The layout rule is that of the handler table: fields are only ever added at
// the end of a struct, and a reader strides by `argument_size` and
// `attribute_size`. A field that an older library lacks reads as zero.
// signature.h tells how a signature is written.

#ifndef XLA_FFI_CORE_HANDLER_SIGNATURE_H_
#define XLA_FFI_CORE_HANDLER_SIGNATURE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// How an argument's shape follows from that of the argument `shape_of`.
typedef enum XlaFfiKit_ShapeForm {
  XlaFfiKit_ShapeForm_SAME = 0,
  XlaFfiKit_ShapeForm_BUT_LAST = 1,      // another last axis: `last`, or any
  XlaFfiKit_ShapeForm_WITHOUT_LAST = 2,  // no last axis
  XlaFfiKit_ShapeForm_WITHOUT_AXIS = 3,  // no axis `last`
} XlaFfiKit_ShapeForm;

// An operand or a result. Arguments are numbered from the first operand on,
// results after operands. The first operand is always there.
typedef struct XlaFfiKit_Argument {
  const char* place;       // "operand x", as errors name it
  const int32_t* dtypes;   // XLA_FFI_DataType: those it may have; null if
  size_t num_dtypes;       // `dtype_of` decides, or if it may have any
  const char* dtype_text;  // why it has that dtype; null: "like <dtype_of>"
  int32_t dtype_of;        // the argument whose dtype it has, or -1
  int32_t min_rank, max_rank;
  int32_t shape_of;        // the argument whose shape it has, or -1
  int32_t shape_form;      // XlaFfiKit_ShapeForm
  const char* last;        // the attribute that names the axis, or null
  const char* shape_text;  // why it has that shape; null: "like <shape_of>"
  // Whether it may be missing. The number of operands says which operands are
  // there, and the number of results which results: the first ones.
  int32_t is_optional;
  int32_t given_with;   // it is there exactly if this argument is; 0: always
  int32_t is_repeated;  // one or more of them; results: one for each operand
} XlaFfiKit_Argument;

typedef struct XlaFfiKit_Attribute {
  const char* name;
  int32_t type;   // XLA_FFI_AttrType: a scalar, an array or a string
  int32_t dtype;  // XLA_FFI_DataType, of scalars and arrays
  int64_t size;   // of an array; -1: any
  // Bounds of an integer, or of each of an array; none if min > max. A float
  // with bounds is finite and not below `min`.
  int64_t min, max;
  const char* max_text;      // how errors name `max`, or null
  int32_t axis_of;           // the argument that it is an axis of, or -1
  const char* const* words;  // those that a string may be, or null
  size_t num_words;
  int32_t other_dtype;   // of a scalar that may have one of two dtypes, or 0
  int32_t unless_given;  // it is there only without this argument; 0: always
} XlaFfiKit_Attribute;

typedef struct XlaFfiKit_Signature {
  size_t struct_size;     // sizeof(XlaFfiKit_Signature) of the library
  size_t argument_size;   // sizeof(XlaFfiKit_Argument) of the library
  size_t attribute_size;  // sizeof(XlaFfiKit_Attribute) of the library
  const char* operation;  // its custom call target, as errors name it
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
