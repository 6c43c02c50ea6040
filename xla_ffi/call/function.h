// What `xla_ffi_kit.call` knows of a C function: its address, and what its
// parameters are. A process defines functions by name, and a program names the
// one that it calls: it contains no address, so that it can be written to a
// file.
//
// The layout rule is that of the handler table: fields are only ever added at
// the end of XlaFfiKit_Function. Parameters have no stride, and stay as they
// are.

#ifndef XLA_FFI_CALL_FUNCTION_H_
#define XLA_FFI_CALL_FUNCTION_H_

#include <stddef.h>
#include <stdint.h>

#include "xla_ffi/core/handler_table.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a parameter gets. Operands and results of the operation stand in the
// order of the parameters, after the result that the function returns.
typedef enum XlaFfiKit_ParameterKind {
  XlaFfiKit_ParameterKind_VALUE = 0,    // an element of an operand
  XlaFfiKit_ParameterKind_OPERAND = 1,  // the address of a row of an operand
  XlaFfiKit_ParameterKind_RESULT = 2,   // the address of a row of a result
  XlaFfiKit_ParameterKind_SIZE = 3,     // an integer: the size of an axis
  XlaFfiKit_ParameterKind_ZERO = 4,     // an integer: 0
  // An attribute of the operation, a number if it has no axis: for functions
  // of arrays.
  XlaFfiKit_ParameterKind_ATTRIBUTE = 5,
} XlaFfiKit_ParameterKind;

typedef struct XlaFfiKit_Parameter {
  int32_t kind;
  int32_t dtype;  // XLA_FFI_DataType, of a row's elements if it is an address
  // The axes of a row by the numbers of their sizes, 0 to 31, or minus a size
  // that is given. A SIZE has one number.
  int32_t num_sizes;
  int32_t sizes[4];
} XlaFfiKit_Parameter;

struct XlaFfiKit_Function {
  size_t struct_size;     // sizeof(XlaFfiKit_Function) of who defines it
  const char* name;       // what programs call it by
  const char* signature;  // in C, for errors
  void* address;
  int32_t returns;         // XLA_FFI_DataType; XLA_FFI_DataType_INVALID: void
  int32_t is_status;       // an integer it returns is no result, but 0 or wrong
  int32_t is_thread_safe;  // else one thread of the process calls it at a time
  size_t num_parameters;
  const XlaFfiKit_Parameter* parameters;
  // For a function of arrays: what it says if it returns another number than 0.
  // Else null.
  const char* failure;
};

// A function of arrays is called once, with all rows. It gets the addresses of
// the operands, results and attributes that its parameters are, and for each
// its sizes: of an operand or result the number of rows, then its own
// `num_sizes` axes, of any sizes; of an attribute the number of elements.
// Parameters that are numbers, sizes or 0 it has not.
typedef int64_t XlaFfiKit_ArraysFn(const void* const* data,
                                   const int64_t* sizes);

// Makes a function known; nothing is changed if the same is known already.
// Returns null, or what is wrong. The function must exist as long as the
// process; all else is copied.
XlaFfiKit_DefineFunctionFn XlaFfiKit_define_function;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // XLA_FFI_CALL_FUNCTION_H_
