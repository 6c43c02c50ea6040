// The C functions that this process has defined, ready to be called.

#ifndef XLA_FFI_CALL_FUNCTIONS_H_
#define XLA_FFI_CALL_FUNCTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xla_ffi/call/function.h"
#include "xla_ffi/call/registers.h"

namespace xla_ffi_kit::call {

// Numbers of the FFI's dtypes that a function can take, and how a column is
// made of them and back.
struct Number {
  int64_t bytes;
  bool is_float;
  // Reads `count` numbers, `stride` bytes apart, into 8 bytes each.
  void (*widen)(const char* from, int64_t stride, int64_t count, void* column);
  // Writes those of a column, one after the other.
  void (*narrow)(const void* column, int64_t count, char* to);
};

// Null for a dtype that no C function takes.
const Number* FindNumber(int32_t dtype);

struct Parameter : XlaFfiKit_Parameter {
  const Number* number;

  bool is_operand() const {
    return kind == XlaFfiKit_ParameterKind_VALUE ||
           kind == XlaFfiKit_ParameterKind_OPERAND;
  }
  bool is_result() const { return kind == XlaFfiKit_ParameterKind_RESULT; }
  bool is_address() const {
    return is_result() || kind == XlaFfiKit_ParameterKind_OPERAND;
  }
  bool is_float() const { return !is_address() && number->is_float; }
};

// It is never changed or deleted.
struct Function {
  std::string name, signature;
  std::string failure;  // of a function of arrays, which have it
  const void* address;
  bool is_status, is_thread_safe;
  int32_t returns;         // XLA_FFI_DataType
  const Number* returned;  // null: it returns nothing
  std::vector<Parameter> parameters;
  size_t num_operands = 0, num_results = 0;
  CallRows* call;
  const Function* next = nullptr;

  bool takes_arrays() const { return !failure.empty(); }
  // Whether what it returns is the operation's first result.
  bool returns_result() const { return returned != nullptr && !is_status; }
};

// Finds a function by its name; null if this process has not defined it.
const Function* Find(std::string_view name);

}  // namespace xla_ffi_kit::call

#endif  // XLA_FFI_CALL_FUNCTIONS_H_
