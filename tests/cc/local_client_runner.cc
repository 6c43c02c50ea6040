#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/cc/runner.h"
#include "xla/client/client_library.h"
#include "xla/client/local_client.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/literal.h"
#include "xla/service/service.h"

namespace xla_ffi_kit {
namespace {

class LocalClientRunner : public Runner {
 public:
  absl::StatusOr<xla::Literal> Run(
      const xla::XlaComputation& computation,
      const std::vector<xla::Literal>& arguments) override {
    xla::LocalClient* client = xla::ClientLibrary::LocalClientOrDie();
    std::vector<std::unique_ptr<xla::GlobalData>> owned;
    std::vector<xla::GlobalData*> handles;
    for (const xla::Literal& argument : arguments) {
      absl::StatusOr<std::unique_ptr<xla::GlobalData>> data =
          client->TransferToServer(argument);
      if (!data.ok()) return data.status();
      handles.push_back(data->get());
      owned.push_back(*std::move(data));
    }
    return client->ExecuteAndTransfer(computation, handles);
  }
};

}  // namespace

std::unique_ptr<Runner> MakeLocalClientRunner() {
  return std::make_unique<LocalClientRunner>();
}

}  // namespace xla_ffi_kit
