// The CUDA handlers with a real XLA, on a machine that needs no GPU.

#include <cstddef>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "xla/ffi/api/c_api.h"
#include "xla_ffi/registration/registry.h"

namespace xla_ffi_kit {
namespace {

TEST(RegistryCudaTest, EveryTargetIsOneOfTheCpu) {
  std::set<std::string> of_cpu;
  const XlaFfiKit_HandlerTable* cpu = XlaFfiKit_CpuHandlerTable();
  for (size_t i = 0; i < cpu->num_handlers; ++i) {
    of_cpu.insert(cpu->handlers[i].name);
  }
  const XlaFfiKit_HandlerTable* cuda = XlaFfiKit_CudaHandlerTable();
  EXPECT_GE(cuda->num_handlers, 5u);
  for (size_t i = 0; i < cuda->num_handlers; ++i) {
    EXPECT_STREQ(cuda->handlers[i].platform, "CUDA");
    EXPECT_EQ(of_cpu.count(cuda->handlers[i].name), 1u)
        << cuda->handlers[i].name;
  }
}

TEST(RegistryCudaTest, BesideTheCpuHandlersAndMoreThanOnce) {
  // Also at start-up, by register_cpu and register_cuda.
  EXPECT_EQ(XlaFfiKit_RegisterCudaHandlers(XLA_FFI_GetApi()), nullptr);
  EXPECT_EQ(XlaFfiKit_RegisterCpuHandlers(XLA_FFI_GetApi()), nullptr);
}

}  // namespace
}  // namespace xla_ffi_kit
