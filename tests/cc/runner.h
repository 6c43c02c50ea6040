// Runs a computation: on the CPU, through either of XLA's two clients, or on
// CUDA.

#ifndef TESTS_CC_RUNNER_H_
#define TESTS_CC_RUNNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/literal.h"

namespace xla_ffi_kit {

class Runner {
 public:
  virtual ~Runner() = default;

  // Compiles `computation`, runs it on `arguments` and returns its result (a
  // tuple literal for a tuple). Errors of compilation and of execution come
  // back as XLA gives them.
  virtual absl::StatusOr<xla::Literal> Run(
      const xla::XlaComputation& computation,
      const std::vector<xla::Literal>& arguments) = 0;
};

// xla::LocalClient, the client that XlaBuilder grew up with.
std::unique_ptr<Runner> MakeLocalClientRunner();

// The same on this machine's first GPU; NOT_FOUND from an XLA without CUDA, or
// XLA's own error where there is no GPU.
absl::StatusOr<std::unique_ptr<Runner>> MakeCudaRunner();

// The PjRt CPU client, the one that JAX runs on.
std::unique_ptr<Runner> MakePjRtRunner();

// The same, with `data`, which outlives it, as the user data of that FFI type
// in the context of every run.
std::unique_ptr<Runner> MakePjRtRunnerWithUserData(int64_t type_id, void* data);

}  // namespace xla_ffi_kit

#endif  // TESTS_CC_RUNNER_H_
