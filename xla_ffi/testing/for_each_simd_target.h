// Runs a test once per instruction set of a SIMD kernel.

#ifndef XLA_FFI_TESTING_FOR_EACH_SIMD_TARGET_H_
#define XLA_FFI_TESTING_FOR_EACH_SIMD_TARGET_H_

#include <cstdint>

#include "gtest/gtest.h"
// Before Highway: which instruction sets there are.
#include "xla_ffi/core/simd_targets.h"
// After it.
#include "hwy/targets.h"

namespace xla_ffi_kit::testing {

// Calls test() with every kernel dispatched to each instruction set that this
// build has and this CPU supports, one after the other; failures name it.
template <typename Test>
void ForEachSimdTarget(const Test& test) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    test();
    hwy::SetSupportedTargetsForTest(0);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FOR_EACH_SIMD_TARGET_H_
