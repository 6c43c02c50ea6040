// Handlers that the benchmark puts beside the kit's: the tutorial's loops, a
// copy of the same bytes, and a call that does nothing.

#include <cstdint>
#include <cstring>

#include "benchmarks/baseline/loops.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/output_pages.h"
#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_kit::baseline {
namespace {

namespace ffi = ::xla::ffi;
using Operand = ffi::AnyBuffer;
using Result = ffi::Result<ffi::AnyBuffer>;

template <typename T>
const T* In(const Operand& buffer) {
  return static_cast<const T*>(buffer.untyped_data());
}
template <typename T>
T* Out(Result& buffer) {
  return static_cast<T*>(buffer->untyped_data());
}

ffi::Error NormImpl(double eps, Operand x, Result y) {
  return DispatchDtype(
      FloatTypes(), x.element_type(), {"baseline.rms_norm", "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        const BatchShape shape = SplitLastAxis(x.dimensions());
        const int64_t n = shape.length;
        for (int64_t row = 0; row < shape.rows; ++row) {
          RmsNorm<T>(eps, n, In<T>(x) + row * n, Out<T>(y) + row * n);
        }
        return {};
      });
}

ffi::Error NormFwdImpl(double eps, Operand x, Result y, Result scale) {
  return DispatchDtype(
      FloatTypes(), x.element_type(), {"baseline.rms_norm_fwd", "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        const BatchShape shape = SplitLastAxis(x.dimensions());
        const int64_t n = shape.length;
        for (int64_t row = 0; row < shape.rows; ++row) {
          Out<AccumulationType<T>>(scale)[row] =
              RmsNorm<T>(eps, n, In<T>(x) + row * n, Out<T>(y) + row * n);
        }
        return {};
      });
}

ffi::Error NormBwdImpl(Operand scale, Operand x, Operand ct, Result dx) {
  return DispatchDtype(
      FloatTypes(), x.element_type(), {"baseline.rms_norm_bwd", "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        const BatchShape shape = SplitLastAxis(x.dimensions());
        const int64_t n = shape.length;
        for (int64_t row = 0; row < shape.rows; ++row) {
          RmsNormBackward<T>(n, In<AccumulationType<T>>(scale)[row],
                             In<T>(x) + row * n, In<T>(ct) + row * n,
                             Out<T>(dx) + row * n);
        }
        return {};
      });
}

ffi::Error ModularAddImpl(Operand b, Operand c, Result a) {
  return DispatchDtype(
      NumberTypes(), c.element_type(), {"baseline.modular_add", "operand c"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        const BatchShape shape = SplitLastAxis(c.dimensions());
        const int64_t n = b.dimensions().back();
        for (int64_t row = 0; row < shape.rows; ++row) {
          ModularAdd<T>(In<T>(b) + row * n, n, In<T>(c) + row * shape.length,
                        shape.length, Out<T>(a) + row * shape.length);
        }
        return {};
      });
}

using ReluTypes = TypeList<Float16, BFloat16, float, double, int8_t, int16_t,
                           int32_t, int64_t>;

ffi::Error ReluImpl(Operand x, Result y) {
  return DispatchDtype(
      ReluTypes(), x.element_type(), {"baseline.relu", "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        Relu<T>(In<T>(x), static_cast<int64_t>(x.element_count()), Out<T>(y));
        return {};
      });
}

// The sum of the bytes, so that the compiler cannot leave the reading out.
uint64_t Read(const uint64_t* words, int64_t count) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += words[i];
  return sum;
}

// Copies the first operand to the result, on the kit's threads, and reads the
// other operands: the bytes that an operation on them has to move.
ffi::Error CopyImpl(ffi::ThreadPool pool, bool huge_pages, Operand from,
                    ffi::RemainingArgs others, Result to) {
  if (from.size_bytes() != to->size_bytes()) {
    return ffi::Error::InvalidArgument(
        "baseline.copy: result: expected as many bytes as the first operand");
  }
  if (huge_pages) AdviseHugePages(to->untyped_data(), to->size_bytes());
  const auto bytes = static_cast<int64_t>(from.size_bytes());
  if (to->untyped_data() != from.untyped_data()) {
    ParallelFor(pool, bytes, 2, [&](int64_t begin, int64_t end) noexcept {
      std::memcpy(Out<char>(to) + begin, In<char>(from) + begin,
                  static_cast<size_t>(end - begin));
    });
  }
  for (size_t i = 0; i < others.size(); ++i) {
    const ffi::ErrorOr<Operand> other = others.get<Operand>(i);
    if (other.has_error()) return other.error();
    constexpr auto kWord = static_cast<int64_t>(sizeof(uint64_t));
    const auto words = static_cast<int64_t>(other->size_bytes()) / kWord;
    ParallelFor(pool, words, kWord, [&](int64_t begin, int64_t end) noexcept {
      [[maybe_unused]] volatile uint64_t sum =
          Read(In<uint64_t>(*other) + begin, end - begin);
    });
  }
  return {};
}

ffi::Error EmptyImpl(ffi::RemainingArgs, ffi::RemainingRets) { return {}; }

}  // namespace
}  // namespace xla_ffi_kit::baseline

namespace ffi = xla::ffi;
namespace baseline = xla_ffi_kit::baseline;

XLA_FFI_DEFINE_HANDLER_SYMBOL(BaselineRmsNorm, baseline::NormImpl,
                              ffi::Ffi::Bind()
                                  .Attr<double>("eps")
                                  .Arg<ffi::AnyBuffer>()    // x
                                  .Ret<ffi::AnyBuffer>());  // y

XLA_FFI_DEFINE_HANDLER_SYMBOL(BaselineRmsNormFwd, baseline::NormFwdImpl,
                              ffi::Ffi::Bind()
                                  .Attr<double>("eps")
                                  .Arg<ffi::AnyBuffer>()    // x
                                  .Ret<ffi::AnyBuffer>()    // y
                                  .Ret<ffi::AnyBuffer>());  // scale

XLA_FFI_DEFINE_HANDLER_SYMBOL(BaselineRmsNormBwd, baseline::NormBwdImpl,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()    // scale
                                  .Arg<ffi::AnyBuffer>()    // x
                                  .Arg<ffi::AnyBuffer>()    // ct
                                  .Ret<ffi::AnyBuffer>());  // dx

XLA_FFI_DEFINE_HANDLER_SYMBOL(BaselineModularAdd, baseline::ModularAddImpl,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()    // b
                                  .Arg<ffi::AnyBuffer>()    // c
                                  .Ret<ffi::AnyBuffer>());  // a

XLA_FFI_DEFINE_HANDLER_SYMBOL(BaselineRelu, baseline::ReluImpl,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()    // x
                                  .Ret<ffi::AnyBuffer>());  // y

XLA_FFI_DEFINE_HANDLER_SYMBOL(BaselineCopy, baseline::CopyImpl,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<bool>("huge_pages")
                                  .Arg<ffi::AnyBuffer>()    // from
                                  .RemainingArgs()          // read
                                  .Ret<ffi::AnyBuffer>());  // to

XLA_FFI_DEFINE_HANDLER_SYMBOL(BaselineEmpty, baseline::EmptyImpl,
                              ffi::Ffi::Bind().RemainingArgs().RemainingRets());
