#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/cc/runner.h"
#include "xla/client/client_library.h"
#include "xla/client/local_client.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/literal.h"
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

}  // namespace xla_ffi_kit
