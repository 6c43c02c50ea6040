// The consumer's handler runs, and shares a table with the kit's.

#include <cstddef>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"

extern "C" const XlaFfiKit_HandlerTable* all_handlers_handler_table();
extern "C" XLA_FFI_Error* ConsumerScale(XLA_FFI_CallFrame* frame);

namespace {

int Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

}  // namespace

int main() {
  std::vector<float> x = {1, -2}, y(2);
  const xla_ffi_kit::testing::Status status = xla_ffi_kit::testing::CallFrame()
                                                  .Arg(x, {2})
                                                  .Ret(y, {2})
                                                  .Attr("factor", 3.0f)
                                                  .Run(ConsumerScale);
  if (!status.ok()) return Fail(status.message);
  if (y[0] != 3 || y[1] != -6) return Fail("wrong result");

  std::set<std::string> names;
  const XlaFfiKit_HandlerTable* table = all_handlers_handler_table();
  for (size_t i = 0; i < table->num_handlers; ++i) {
    names.insert(table->handlers[i].name);
  }
  if (names.count("consumer.scale") == 0) return Fail("own handler missing");
  if (names.count("xla_ffi_kit.modular_add") == 0) return Fail("kit's missing");
  return 0;
}
