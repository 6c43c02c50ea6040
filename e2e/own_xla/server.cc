// Serves a JAX program without Python: one request per line of stdin, one
// reply per line of stdout.
//
//   server model.mlir
//
// The program is StableHLO as JAX exports it. It calls the kit's handlers,
// which register themselves when this program starts (register_cpu).

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/literal.h"
#include "xla/literal_util.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_client_options.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"

namespace xla {
// Of xla/pjrt/mlir_to_hlo.h, which includes MLIR: the prebuilt XLA that stands
// in here comes without its headers.
absl::Status ParseMlirModuleStringAndConvertToXlaComputation(
    absl::string_view text, XlaComputation& computation, bool use_tuple_args,
    bool return_tuple);
}  // namespace xla

namespace {

class Model {
 public:
  static absl::StatusOr<Model> Load(const std::string& stablehlo) {
    Model model;
    xla::XlaComputation computation;
    absl::Status status = xla::ParseMlirModuleStringAndConvertToXlaComputation(
        stablehlo, computation, /*use_tuple_args=*/false,
        /*return_tuple=*/false);
    if (!status.ok()) return status;
    auto client = xla::GetXlaPjrtCpuClient(xla::CpuClientOptions());
    if (!client.ok()) return client.status();
    model.client_ = *std::move(client);
    auto executable =
        model.client_->CompileAndLoad(computation, xla::CompileOptions());
    if (!executable.ok()) return executable.status();
    model.executable_ = *std::move(executable);
    return model;
  }

  absl::StatusOr<std::vector<float>> Run(const std::vector<float>& request) {
    // Has to outlive the transfer, which ends with the computation.
    const xla::Literal literal = xla::LiteralUtil::CreateR1<float>(request);
    auto argument =
        client_->BufferFromHostLiteral(literal, client_->memory_spaces()[0]);
    if (!argument.ok()) return argument.status();
    auto results =
        executable_->Execute({{argument->get()}}, xla::ExecuteOptions());
    if (!results.ok()) return results.status();
    auto reply = (*results)[0][0]->ToLiteral().Await();
    if (!reply.ok()) return reply.status();
    const auto values = (*reply)->data<float>();
    return std::vector<float>(values.begin(), values.end());
  }

 private:
  std::unique_ptr<xla::PjRtClient> client_;
  std::unique_ptr<xla::PjRtLoadedExecutable> executable_;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "");
  const std::string stablehlo{std::istreambuf_iterator<char>(file), {}};
  absl::StatusOr<Model> model = Model::Load(stablehlo);
  if (!model.ok()) return Fail(model.status());
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    const std::vector<float> request{std::istream_iterator<float>(words), {}};
    absl::StatusOr<std::vector<float>> reply = model->Run(request);
    if (!reply.ok()) return Fail(reply.status());
    for (size_t i = 0; i < reply->size(); ++i) {
      std::printf("%s%.4f", i ? " " : "", (*reply)[i]);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}
