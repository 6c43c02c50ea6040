// Stands in for MLIR's header of this name, which the wheel does not have.
//
// XLA's PjRt headers include it to take mlir::ModuleOp by value in virtual
// functions, which the tests never call. ModuleOp is one pointer wide.

#ifndef THIRD_PARTY_XLA_PREBUILT_SHIM_MLIR_IR_BUILTINOPS_H_
#define THIRD_PARTY_XLA_PREBUILT_SHIM_MLIR_IR_BUILTINOPS_H_

namespace mlir {

class Operation;

class ModuleOp {
 private:
  Operation* operation_ = nullptr;
};

}  // namespace mlir

#endif  // THIRD_PARTY_XLA_PREBUILT_SHIM_MLIR_IR_BUILTINOPS_H_
