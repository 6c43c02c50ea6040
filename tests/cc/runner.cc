// All clients in one file: most of the time that it takes to compile goes into
// headers of XLA's that they share.

#include "tests/cc/runner.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xla/client/client_library.h"
#include "xla/client/local_client.h"
#include "xla/ffi/execution_context.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/literal.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_client_options.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"
#include "xla/service/platform_util.h"
#include "xla/service/service.h"

namespace xla_ffi_kit {
namespace {

class LocalClientRunner : public Runner {
 public:
  explicit LocalClientRunner(xla::LocalClient* client) : client_(client) {}

  absl::StatusOr<xla::Literal> Run(
      const xla::XlaComputation& computation,
      const std::vector<xla::Literal>& arguments) override {
    std::vector<std::unique_ptr<xla::GlobalData>> owned;
    std::vector<xla::GlobalData*> handles;
    for (const xla::Literal& argument : arguments) {
      absl::StatusOr<std::unique_ptr<xla::GlobalData>> data =
          client_->TransferToServer(argument);
      if (!data.ok()) return data.status();
      handles.push_back(data->get());
      owned.push_back(*std::move(data));
    }
    return client_->ExecuteAndTransfer(computation, handles);
  }

 private:
  xla::LocalClient* client_;  // XLA's own, for the life of the process
};

// One buffer per element of the result, as PjRt untuples it by default.
absl::StatusOr<xla::Literal> ToLiteral(
    const std::vector<std::unique_ptr<xla::PjRtBuffer>>& buffers) {
  std::vector<xla::Literal> parts;
  for (const std::unique_ptr<xla::PjRtBuffer>& buffer : buffers) {
    absl::StatusOr<std::shared_ptr<xla::Literal>> part =
        buffer->ToLiteral().Await();
    if (!part.ok()) return part.status();
    parts.push_back((*part)->Clone());
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return xla::Literal::MoveIntoTuple(absl::MakeSpan(parts));
}

class PjRtRunner : public Runner {
 public:
  PjRtRunner() {
    absl::StatusOr<std::unique_ptr<xla::PjRtClient>> client =
        xla::GetXlaPjrtCpuClient(xla::CpuClientOptions());
    CHECK_OK(client.status());
    client_ = *std::move(client);
  }

  // `data` belongs to the caller.
  void AddUserData(int64_t type_id, void* data) {
    CHECK_OK(context_.ffi_context().Insert(
        xla::ffi::ExecutionContext::TypeId(type_id), data));
  }

  absl::StatusOr<xla::Literal> Run(
      const xla::XlaComputation& computation,
      const std::vector<xla::Literal>& arguments) override {
    absl::StatusOr<std::unique_ptr<xla::PjRtLoadedExecutable>> executable =
        client_->CompileAndLoad(computation, xla::CompileOptions());
    if (!executable.ok()) return executable.status();
    xla::PjRtMemorySpace* memory = client_->memory_spaces()[0];
    std::vector<std::unique_ptr<xla::PjRtBuffer>> owned;
    std::vector<xla::PjRtBuffer*> handles;
    for (const xla::Literal& argument : arguments) {
      absl::StatusOr<std::unique_ptr<xla::PjRtBuffer>> buffer =
          client_->BufferFromHostLiteral(argument, memory);
      if (!buffer.ok()) return buffer.status();
      handles.push_back(buffer->get());
      owned.push_back(*std::move(buffer));
    }
    xla::ExecuteOptions options;
    // Without one, a handler that asks for user data ends this XLA with a null
    // pointer.
    options.context = &context_;
    absl::StatusOr<std::vector<std::vector<std::unique_ptr<xla::PjRtBuffer>>>>
        results = (*executable)->Execute({handles}, options);
    if (!results.ok()) return results.status();
    return ToLiteral((*results)[0]);
  }

 private:
  std::unique_ptr<xla::PjRtClient> client_;
  xla::ExecuteContext context_;
};

}  // namespace

std::unique_ptr<Runner> MakeLocalClientRunner() {
  return std::make_unique<LocalClientRunner>(
      xla::ClientLibrary::LocalClientOrDie());
}

absl::StatusOr<std::unique_ptr<Runner>> MakeCudaRunner() {
  absl::StatusOr<stream_executor::Platform*> platform =
      xla::PlatformUtil::GetPlatform("CUDA");
  if (!platform.ok()) return platform.status();
  absl::StatusOr<xla::LocalClient*> client =
      xla::ClientLibrary::GetOrCreateLocalClient(*platform);
  if (!client.ok()) return client.status();
  return std::make_unique<LocalClientRunner>(*client);
}

std::unique_ptr<Runner> MakePjRtRunner() {
  return std::make_unique<PjRtRunner>();
}

std::unique_ptr<Runner> MakePjRtRunnerWithUserData(int64_t type_id,
                                                   void* data) {
  auto runner = std::make_unique<PjRtRunner>();
  runner->AddUserData(type_id, data);
  return runner;
}

}  // namespace xla_ffi_kit
