// Handlers that show one property each, for the tests of FfiOp. All take f32.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler_table.h"

namespace {

namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
using OutF32 = ffi::Result<F32>;
using OutS32 = ffi::Result<ffi::Buffer<ffi::S32>>;

// y = 2 x; x and y may be one buffer.
ffi::Error Double(F32 x, OutF32 y) {
  const size_t n = x.element_count();
  for (size_t i = 0; i < n; ++i) {
    y->typed_data()[i] = 2 * x.typed_data()[i];
  }
  return ffi::Error::Success();
}

// z[b, i] = x[b, i] + y[b, i]; an operand with one row is used for every b.
ffi::Error AddRows(F32 x, F32 y, OutF32 z) {
  const auto shape = z->dimensions();
  if (shape.size() != 2 || x.dimensions().size() != 2 ||
      y.dimensions().size() != 2) {
    return ffi::Error::InvalidArgument("test.add_rows: expected rank 2");
  }
  const int64_t n = shape[1];
  const int64_t x_row = x.dimensions()[0] == 1 ? 0 : n;
  const int64_t y_row = y.dimensions()[0] == 1 ? 0 : n;
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      z->typed_data()[b * n + i] =
          x.typed_data()[b * x_row + i] + y.typed_data()[b * y_row + i];
    }
  }
  return ffi::Error::Success();
}

// The sum of one vector; cannot batch.
ffi::Error SumOne(F32 x, OutF32 sum) {
  if (x.dimensions().size() != 1) {
    return ffi::Error::InvalidArgument(
        "test.sum_one: operand x: expected rank 1, got rank " +
        std::to_string(x.dimensions().size()));
  }
  float total = 0;
  for (size_t i = 0; i < x.element_count(); ++i) total += x.typed_data()[i];
  sum->typed_data()[0] = total;
  return ffi::Error::Success();
}

// Copies x and counts its calls in this process.
ffi::Error Count(F32 x, OutF32 y, OutS32 calls) {
  static std::atomic<int32_t> count{0};
  std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  calls->typed_data()[0] = ++count;
  return ffi::Error::Success();
}

// y is x backwards; wrong if they are one buffer.
ffi::Error Reverse(F32 x, OutF32 y) {
  const size_t n = x.element_count();
  const size_t row = x.dimensions().back();
  for (size_t i = 0; i < n; ++i) {
    y->typed_data()[i] = x.typed_data()[i / row * row + (row - 1 - i % row)];
  }
  return ffi::Error::Success();
}

// Copies x, and spoils it: what a handler may not do.
ffi::Error Spoil(F32 x, OutF32 y) {
  std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  if (x.element_count() > 0) x.typed_data()[0] += 1;
  return ffi::Error::Success();
}

// Counts the runs of one call site, in state that XLA keeps for it.
struct Runs {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  int32_t count = 0;
};
ffi::TypeId Runs::id = {};
ffi::TypeInfo Runs::info = ffi::MakeTypeInfo<Runs>();
ffi::TypeId on_device = {};

ffi::ErrorOr<std::unique_ptr<Runs>> NewRuns() {
  return std::make_unique<Runs>();
}

ffi::Error CountRuns(Runs* runs, OutS32 count) {
  count->typed_data()[0] = ++runs->count;
  return ffi::Error::Success();
}

// Stands for a stage that only its place matters of.
ffi::Error DoNothing() { return ffi::Error::Success(); }

// Writes what it got as attributes to y: integer, length of text, sum of list,
// the dictionary's scale, flag.
ffi::Error Describe(F32 x, OutF32 y, int32_t integer, std::string_view text,
                    ffi::Span<const int64_t> list, ffi::Dictionary options,
                    bool flag) {
  auto scale = options.get<double>("scale");
  if (scale.has_error()) return scale.error();
  int64_t sum = 0;
  for (int64_t value : list) sum += value;
  const float values[] = {static_cast<float>(integer),
                          static_cast<float>(text.size()),
                          static_cast<float>(sum), static_cast<float>(*scale),
                          static_cast<float>(flag)};
  if (y->element_count() != 5 || x.element_count() != 5) {
    return ffi::Error::InvalidArgument("test.describe: expected 5 elements");
  }
  std::memcpy(y->untyped_data(), values, sizeof(values));
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kDouble, Double, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER(kAddRows, AddRows,
                       ffi::Ffi::Bind().Arg<F32>().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER(kSumOne, SumOne, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER(
    kCount, Count,
    ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Ret<ffi::Buffer<ffi::S32>>());
XLA_FFI_DEFINE_HANDLER(kReverse, Reverse,
                       ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER(kSpoil, Spoil, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER(kNewRuns, NewRuns, ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER(
    kCountRuns, CountRuns,
    ffi::Ffi::Bind().Ctx<ffi::State<Runs>>().Ret<ffi::Buffer<ffi::S32>>());
XLA_FFI_DEFINE_HANDLER(kPrepare, DoNothing,
                       ffi::Ffi::Bind<ffi::ExecutionStage::kPrepare>());
XLA_FFI_DEFINE_HANDLER(kInitialize, DoNothing,
                       ffi::Ffi::Bind<ffi::ExecutionStage::kInitialize>());
XLA_FFI_DEFINE_HANDLER(kDescribe, Describe,
                       ffi::Ffi::Bind()
                           .Arg<F32>()
                           .Ret<F32>()
                           .Attr<int32_t>("integer")
                           .Attr<std::string_view>("text")
                           .Attr<ffi::Span<const int64_t>>("list")
                           .Attr<ffi::Dictionary>("options")
                           .Attr<bool>("flag"));

// One of everything that a signature says.
namespace keys {

using namespace xla_ffi_kit;

constexpr Operand x{"x", TypeList<float, double>(), "(..., n)"};
constexpr Operand weight{"weight", SameDtype(x), "(m)"};
constexpr Result y{"y", x};
constexpr Result rows{"rows", TypeList<int32_t>(), "(..., count)"};
constexpr Axis axis{"axis", x};
constexpr auto count = Attribute<int64_t>{"count"}.Between(0, 9);
constexpr Attribute<double> eps{"eps"};
constexpr Word mode{"mode", "fast", "exact"};
constexpr auto strides =
    Attribute<Dimensions>{"strides"}.Elements(2).Between(1, 1 << 30);
constexpr char kName[] = "test.signed";
using Signed = Call<kName, x, weight, y, rows, axis, count, eps, mode, strides>;

}  // namespace keys

const XlaFfiKit_Handler kHandlers[] = {
    // Never run.
    {"test.signed", "Host", nullptr, nullptr, nullptr, kDouble,
     &keys::Signed::kSignature},
    {"test.double", "Host", nullptr, nullptr, nullptr, kDouble, nullptr},
    {"test.add_rows", "Host", nullptr, nullptr, nullptr, kAddRows, nullptr},
    {"test.sum_one", "Host", nullptr, nullptr, nullptr, kSumOne, nullptr},
    {"test.count", "Host", nullptr, nullptr, nullptr, kCount, nullptr},
    {"test.reverse", "Host", nullptr, nullptr, nullptr, kReverse, nullptr},
    {"test.spoil", "Host", nullptr, nullptr, nullptr, kSpoil, nullptr},
    {"test.count_runs", "Host", kNewRuns, nullptr, nullptr, kCountRuns,
     nullptr},
    {"test.describe", "Host", nullptr, nullptr, nullptr, kDescribe, nullptr},
    // Never run: for a test of what is registered for a GPU.
    {"test.double", "CUDA", nullptr, nullptr, nullptr, kDouble, nullptr},
    {"test.count_runs", "CUDA", kNewRuns, kPrepare, kInitialize, kCountRuns,
     nullptr},
};

const XlaFfiKit_Type kTypes[] = {
    {"test.runs", "Host", &Runs::id, &Runs::info},
    {"test.runs_on_device", "CUDA", &on_device, &Runs::info},
};

const XlaFfiKit_HandlerTable kTable = {
    sizeof(XlaFfiKit_HandlerTable),
    sizeof(XlaFfiKit_Handler),
    sizeof(XlaFfiKit_Type),
    "test_handlers",
    XLA_FFI_API_MAJOR,
    XLA_FFI_API_MINOR,
    sizeof(kHandlers) / sizeof(kHandlers[0]),
    kHandlers,
    sizeof(kTypes) / sizeof(kTypes[0]),
    kTypes,
    /*register_all=*/nullptr,  // only Python loads this library
    /*parallel_for=*/nullptr,
};

}  // namespace

extern "C" const XlaFfiKit_HandlerTable* XlaFfiKit_GetHandlerTable() {
  return &kTable;
}
