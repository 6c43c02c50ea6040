// @NAME@: y = x * sigmoid(beta * x).
//
// What its handlers take: they check every call by it, and the FfiOp takes over
// dtypes, axes and attributes.

#ifndef @GUARD@
#define @GUARD@

#include "xla_ffi/core/call.h"

namespace @NAMESPACE@ {

namespace kit = ::xla_ffi_kit;

// "(...)" is of any shape; "(..., n)" if the kernel needs the last axis whole.
// Your dtypes: kit::TypeList<float, double>, for instance.
inline constexpr kit::Operand x{"x", kit::RealFloatTypes(), "(...)"};
inline constexpr kit::Result y{"y", x};  // like x
inline constexpr kit::Attribute<double> beta{"beta"};

inline constexpr char kName[] = "@TARGET@";
using OpCall = kit::Call<kName, x, beta, y>;

}  // namespace @NAMESPACE@

#endif  // @GUARD@
