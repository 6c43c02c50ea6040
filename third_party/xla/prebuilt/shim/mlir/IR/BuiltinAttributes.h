// Stands in for MLIR's header of this name, which the wheel does not have.
//
// xla/ffi/ffi_api.h includes it to name mlir::DictionaryAttr in the declaration
// of BuildAttributesMap(), which programs on the wheel cannot call: they have
// no MLIR to make a dictionary with.

#ifndef THIRD_PARTY_XLA_PREBUILT_SHIM_MLIR_IR_BUILTINATTRIBUTES_H_
#define THIRD_PARTY_XLA_PREBUILT_SHIM_MLIR_IR_BUILTINATTRIBUTES_H_

namespace mlir {

class DictionaryAttr;

}  // namespace mlir

#endif  // THIRD_PARTY_XLA_PREBUILT_SHIM_MLIR_IR_BUILTINATTRIBUTES_H_
