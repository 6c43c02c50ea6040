// The handlers of rms_norm.cc in an extension module of nanobind, as JAX's own
// jaxlib has them: capsules without a name, by custom call target.

#include "examples/tutorial/encapsulate.h"
#include "nanobind/nanobind.h"
#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(RmsNorm);
XLA_FFI_DECLARE_HANDLER_SYMBOL(RmsNormFwd);
XLA_FFI_DECLARE_HANDLER_SYMBOL(RmsNormBwd);

namespace nb = nanobind;

NB_MODULE(rms_norm_nanobind, m) {
  m.def("registrations", [] {
    nb::dict handlers;
    handlers["rms_norm"] = nb::capsule(Encapsulate(&RmsNorm));
    handlers["rms_norm_fwd"] = nb::capsule(Encapsulate(&RmsNormFwd));
    handlers["rms_norm_bwd"] = nb::capsule(Encapsulate(&RmsNormBwd));
    return handlers;
  });
}
