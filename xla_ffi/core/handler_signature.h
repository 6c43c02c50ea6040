// Signatures of handlers, which state what a handler takes and returns. C, C++
// and (through ctypes) Python read them from a library's handler table.
//
// The layout rule is that of the handler table: fields are only ever added at
// the end of a struct, and a reader strides by `argument_size` and
// `attribute_size`. A field that an older library lacks reads as zero. Sizes
// have no stride, and stay as they are.
// signature.h tells how a signature is written.

#ifndef XLA_FFI_CORE_HANDLER_SIGNATURE_H_
#define XLA_FFI_CORE_HANDLER_SIGNATURE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What an argument's shape is.
typedef enum XlaFfiKit_ShapeForm {
  XlaFfiKit_ShapeForm_ANY = 0,
  XlaFfiKit_ShapeForm_SIZES = 1,         // batch axes, then those of `sizes`
  XlaFfiKit_ShapeForm_LIKE = 2,          // that of the argument `shape_of`
  XlaFfiKit_ShapeForm_WITHOUT_AXIS = 3,  // the same without one axis
} XlaFfiKit_ShapeForm;

// The axes before those of `sizes`.
typedef enum XlaFfiKit_Batch {
  XlaFfiKit_Batch_NONE = 0,    // "(n)"
  XlaFfiKit_Batch_ALL = 1,     // "(..., n)": the same in all such arguments
  XlaFfiKit_Batch_SHARED = 2,  // "(n)", shared by rows: none or the first ones
} XlaFfiKit_Batch;

typedef enum XlaFfiKit_DtypeForm {
  XlaFfiKit_DtypeForm_SAME = 0,          // that of the argument `dtype_of`
  XlaFfiKit_DtypeForm_ACCUMULATION = 1,  // f64 for f64 and c128, else f32
} XlaFfiKit_DtypeForm;

// The size of an axis, which several arguments may have: "n" of "(..., n)".
typedef struct XlaFfiKit_Size {
  const char* name;   // not null-terminated
  size_t name_size;   // 0: a number, `min`
  int64_t min, max;   // its bounds
  int32_t attribute;  // the attribute whose value it is, or -1
} XlaFfiKit_Size;

// An operand or a result. Arguments are numbered from the first operand on,
// results after operands. The first operand is always there.
typedef struct XlaFfiKit_Argument {
  const char* name;
  const int32_t* dtypes;  // XLA_FFI_DataType: those it may have; null: any
  size_t num_dtypes;
  int32_t dtype_of;  // the argument from whose dtype its own follows, or -1
  int32_t dtype_form;
  int32_t shape_form;
  int32_t shape_of;      // an argument, or -1
  int32_t without_axis;  // the attribute that is this axis, or -1
  int32_t batch;
  const char* shape;     // of SIZES, as it is written: "(..., n)"
  const int32_t* sizes;  // by number
  size_t num_sizes;
  // Whether it may be missing. The number of operands says which operands are
  // there, and the number of results which results: the first ones.
  int32_t is_optional;
  int32_t given_with;   // the argument that it comes with; 0: none
  int32_t is_repeated;  // one or more of them; results: one for each operand
} XlaFfiKit_Argument;

typedef struct XlaFfiKit_Attribute {
  const char* name;
  int32_t type;   // XLA_FFI_AttrType: a scalar, an array or a string
  int32_t dtype;  // XLA_FFI_DataType, of scalars and arrays
  int64_t size;   // of an array; -1: any
  // Bounds of a number, or of each of an array; none if min > max. A float with
  // bounds is finite. Of an axis: bounds of its length.
  int64_t min, max;
  int32_t axis_of;           // the argument that it is an axis of, or -1
  const char* const* words;  // those that a string may be, or null
  size_t num_words;
  int32_t other_dtype;   // of a scalar that may have one of two dtypes, or 0
  int32_t unless_given;  // the argument in whose place it stands; 0: none
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
  size_t num_sizes;
  const XlaFfiKit_Size* sizes;
  // 0: each argument may have any of its dtypes. Else all have so many, and the
  // first ones together, or the second ones, and so on.
  size_t num_combinations;
} XlaFfiKit_Signature;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // XLA_FFI_CORE_HANDLER_SIGNATURE_H_
