// Arrays in the memory of the host, for plugin.h.

#ifndef EXAMPLES_PJRT_SERVER_PJRT_ARRAY_H_
#define EXAMPLES_PJRT_SERVER_PJRT_ARRAY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace xla_ffi_kit::pjrt {

// One sentence, for users to read.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Dtype {
  const char* name;       // as XLA spells it
  PJRT_Buffer_Type type;  // as a plugin numbers it
  int exported;           // as jax.export's files number it
  int64_t size;           // in bytes
};

// Those of JAX that have whole bytes.
inline constexpr Dtype kDtypes[] = {
    {"pred", PJRT_Buffer_Type_PRED, 0, 1},
    {"s8", PJRT_Buffer_Type_S8, 1, 1},
    {"s16", PJRT_Buffer_Type_S16, 2, 2},
    {"s32", PJRT_Buffer_Type_S32, 3, 4},
    {"s64", PJRT_Buffer_Type_S64, 4, 8},
    {"u8", PJRT_Buffer_Type_U8, 5, 1},
    {"u16", PJRT_Buffer_Type_U16, 6, 2},
    {"u32", PJRT_Buffer_Type_U32, 7, 4},
    {"u64", PJRT_Buffer_Type_U64, 8, 8},
    {"f16", PJRT_Buffer_Type_F16, 9, 2},
    {"f32", PJRT_Buffer_Type_F32, 10, 4},
    {"f64", PJRT_Buffer_Type_F64, 11, 8},
    {"c64", PJRT_Buffer_Type_C64, 12, 8},
    {"c128", PJRT_Buffer_Type_C128, 13, 16},
    {"bf16", PJRT_Buffer_Type_BF16, 14, 2},
};

struct Shape {
  const Dtype* dtype;
  std::vector<int64_t> dims;

  std::string Text() const {
    std::string text = dtype->name;
    for (size_t i = 0; i < dims.size(); ++i) {
      text += (i == 0 ? "[" : ",") + std::to_string(dims[i]);
    }
    return text + (dims.empty() ? "[]" : "]");
  }
  // Of the elements, row by row; 0 if an axis is empty. Throws where 64 bits do
  // not hold it.
  int64_t Bytes() const {
    int64_t bytes = dtype->size;
    if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
    for (const int64_t dim : dims) {
      if (__builtin_mul_overflow(bytes, dim, &bytes)) {
        throw Error(Text() + " has more bytes than 64 bits can count");
      }
    }
    return bytes;
  }
};

struct Array {
  Shape shape;
  std::string bytes;
};

}  // namespace xla_ffi_kit::pjrt

#endif  // EXAMPLES_PJRT_SERVER_PJRT_ARRAY_H_
