// The attributes that a handler asks for, as its errors tell: no list of
// attributes is kept here, and those of a new operation are found.

#ifndef XLA_FFI_TESTING_FUZZ_OWN_ATTRIBUTES_H_
#define XLA_FFI_TESTING_FUZZ_OWN_ATTRIBUTES_H_

#include <string>
#include <vector>

#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/attributes.h"

namespace xla_ffi_kit::testing {

struct OwnAttribute {
  enum Kind { kF64, kS64, kString, kS32, kF32, kPred, kNumKinds };

  std::string name;
  Kind kind = kF64;
  // Texts that the handler names where it refuses one; empty for numbers.
  std::vector<std::string> words = {};
  bool is_known = false;  // its name, which is a stand-in before

  // Adds it to `attributes`: `number` as a number, words[number] as a text.
  void Set(double number, Attributes& attributes) const;
};

// Calls the handler with the simplest frames there are, which it must survive,
// until no error is about attributes any more. Asked once for each handler.
const std::vector<OwnAttribute>& OwnAttributesOf(
    const XlaFfiKit_Handler& handler);

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FUZZ_OWN_ATTRIBUTES_H_
