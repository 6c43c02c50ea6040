// tempered: y = x * sigmoid(beta * x).
//
// What its handlers take: they check every call by it, and the FfiOp takes over
// dtypes, axes and attributes.

#ifndef AUTHOR_TEMPERED_H_
#define AUTHOR_TEMPERED_H_

#include "xla_ffi/core/call.h"

namespace author::tempered {

namespace kit = ::xla_ffi_kit;

// "(...)" is of any shape; "(..., n)" if the kernel needs the last axis whole.
// Your dtypes: kit::TypeList<float, double>, for instance.
inline constexpr kit::Operand x{"x", kit::RealFloatTypes(), "(...)"};
inline constexpr kit::Result y{"y", x};  // like x
inline constexpr kit::Attribute<double> beta{"beta"};

inline constexpr char kName[] = "author.tempered";
using OpCall = kit::Call<kName, x, beta, y>;

}  // namespace author::tempered

#endif  // AUTHOR_TEMPERED_H_
