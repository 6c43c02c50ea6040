// Handlers of every form of a signature, which write each element of their
// results.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

template <typename Types>
void Fill(const Array<Types, true>& array, const Executor& executor) {
  if (!array || array.bytes() == 0) return;
  auto* const data = static_cast<char*>(array.data());
  ParallelFor(executor, static_cast<int64_t>(array.bytes()), 16,
              [&](int64_t begin, int64_t end) noexcept {
                std::memset(data + begin, 1, static_cast<size_t>(end - begin));
              });
}

template <typename Types>
void Fill(const Arrays<Types, true>& arrays, const Executor& executor) {
  for (size_t i = 0; i < arrays.size(); ++i) Fill(arrays[i], executor);
}

// A handler that writes what there is of these results.
template <typename ItsCall, const auto&... kResults>
struct Filler {
  static ffi::Error Run(const ItsCall& call, const Executor& executor) {
    (Fill(call.template get<kResults>(), executor), ...);
    return {};
  }
};

#define EXAMPLE(Symbol, ItsCall, ...)                        \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                             \
      Symbol, (Checked<&Filler<ItsCall, __VA_ARGS__>::Run>), \
      (BindCall<&Filler<ItsCall, __VA_ARGS__>::Run>()));     \
  XLA_FFI_KIT_DEFINE_SIGNATURE(Symbol, ItsCall)

}  // namespace

namespace norm {

constexpr Operand x{"x", RealFloatTypes(), "(..., n)"};
constexpr auto weight =
    Operand{"weight", SameDtype(x), "(n)"}.Shared().Optional();
constexpr auto residual = Operand{"residual", x}.Optional();
constexpr auto eps = Attribute<double>{"eps"}.AtLeast(0).OrF32();
constexpr Result y{"y", x};
constexpr auto sum = Result{"sum", x}.GivenWith(residual);
constexpr auto scale =
    Result{"scale", AccumulationDtype(x), "(...)"}.Optional();
constexpr char kName[] = "example.norm";
using NormCall = Call<kName, x, weight, residual, y, sum, scale, eps>;
EXAMPLE(ExampleNorm, NormCall, y, sum, scale);

}  // namespace norm

namespace gradient {

constexpr Operand x{"x", FloatTypes(), "(..., n)"};
constexpr auto scale =
    Operand{"scale", AccumulationDtype(x), "(...)"}.Optional();
constexpr auto eps = Attribute<double>{"eps"}.Between(0, 1).UnlessGiven(scale);
constexpr Result y{"y", x};
constexpr char kName[] = "example.gradient";
using GradientCall = Call<kName, x, scale, y, eps>;
EXAMPLE(ExampleGradient, GradientCall, y);

}  // namespace gradient

namespace argmax {

constexpr Operand x{"x", SignedTypes(), "(...)"};
constexpr Axis axis{"axis", x, 1, int64_t{1} << 31};
constexpr Word of{"of", "max", "min"};
constexpr Result indices{"indices", TypeList<int32_t>(), x.Without(axis)};
constexpr char kName[] = "example.argmax";
using ArgmaxCall = Call<kName, x, axis, of, indices>;
EXAMPLE(ExampleArgmax, ArgmaxCall, indices);

}  // namespace argmax

namespace solve {

constexpr auto a =
    Operand{"a", TypeList<float, double>(), "(..., n, n)"}.Where("n", 1, 16);
constexpr Operand b{"b", SameDtype(a), "(..., n, m)"};
constexpr Operand pairs{"pairs", TypeList<int32_t>(), "(n, 2)"};
constexpr Operand factor{"factor", SameDtype(a), "()"};
constexpr Result y{"y", b};
constexpr char kName[] = "example.solve";
using SolveCall = Call<kName, a, b, pairs, factor, y>;
EXAMPLE(ExampleSolve, SolveCall, y);

}  // namespace solve

namespace nonzero {

constexpr Operand mask{"mask", TypeList<bool>(), "(..., n)"};
constexpr auto size = Attribute<int64_t>{"size"}.AtLeast(0);
constexpr auto fill = Attribute<int32_t>{"fill"}.Between(-1, 1 << 20);
constexpr Result indices{"indices", TypeList<int32_t>(), "(..., size)"};
constexpr char kName[] = "example.nonzero";
using NonzeroCall = Call<kName, mask, size, fill, indices>;
EXAMPLE(ExampleNonzero, NonzeroCall, indices);

}  // namespace nonzero

namespace many {

constexpr auto x = Operand{"x", AnyType(), "(...)"}.Repeated();
constexpr auto num_keys = Attribute<int64_t>{"num_keys"}.AtLeast(1);
constexpr auto y = Result{"y", x}.Repeated();
constexpr char kName[] = "example.many";
using ManyCall = Call<kName, x, num_keys, y>;
EXAMPLE(ExampleMany, ManyCall, y);

}  // namespace many

namespace numbers {

constexpr Operand x{"x", TypeList<float>()};
constexpr auto byte = Attribute<uint8_t>{"byte"}.Between(1, 3);
constexpr auto huge = Attribute<uint64_t>{"huge"}.AtLeast(1);
constexpr auto rate = Attribute<float>{"rate"}.Between(0, 1);
constexpr auto strides =
    Attribute<ffi::Span<const int64_t>>{"strides"}.Elements(2).Between(
        1, int64_t{1} << 30);
constexpr Attribute<ffi::Span<const int64_t>> axes{"axes"};
constexpr Attribute<bool> reverse{"reverse"};
constexpr Attribute<std::string_view> text{"text"};
constexpr Result y{"y", TypeList<int32_t, int64_t>(), SameShape(x)};
constexpr char kName[] = "example.numbers";
using NumbersCall =
    Call<kName, x, byte, huge, rate, strides, axes, reverse, text, y>;
EXAMPLE(ExampleNumbers, NumbersCall, y);

}  // namespace numbers
}  // namespace xla_ffi_kit
