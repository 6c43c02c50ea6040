// The custom call target xla_ffi_kit.call: calls a C function by its name, on
// the rows of arrays. The operation's attribute is that name: what the call
// must look like is what the function's definition says. For a function of
// arrays there is another attribute, `values`, with those of the operation.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>  // NOLINT
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/call/arrays.h"
#include "xla_ffi/call/buffers.h"
#include "xla_ffi/call/functions.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_kit::call {
namespace {

namespace ffi = ::xla::ffi;

// Rows whose arguments are collected at a time.
constexpr int64_t kBlock = 64;
// Nobody knows how long a function takes. An element of a special function
// takes as long as the transfer of some hundred bytes, one of a row less.
constexpr int64_t kBytesPerCall = 512;
constexpr int64_t kBytesPerElement = 64;

// Functions that are not thread-safe often share what they write.
std::mutex one_at_a_time;

// Where the arguments of all rows are, or the addresses that they are.
struct Column {
  const char* data;
  int64_t stride;        // bytes from row to row
  const Number* number;  // null: addresses
  int64_t constant;      // for data that is null
};

// A call, checked. The columns are those of the parameters: to clear the others
// would take as long as a short call.
struct Plan {
  const Function* function = nullptr;
  int64_t rows = 0;
  int64_t longest = 1;  // elements of a row
  Column ints[kMostInts];
  Column floats[kMostFloats];
  size_t num_ints = 0, num_floats = 0;
  char* returned = nullptr;
  // The results that the function writes itself, if no operand is in their
  // place, and the bytes of a row.
  char* written[kMostInts];
  int64_t written_bytes[kMostInts];
  size_t num_written = 0;
};

// --- Checks ------------------------------------------------------------------

class Checker {
 public:
  Checker(const Function& function, const Buffers& buffers, Plan& plan)
      : function_(function), buffers_(buffers), plan_(plan) {
    plan_.function = &function;
  }

  ffi::Error Check() {
    XLA_FFI_KIT_RETURN_IF_ERROR(CheckCounts(function_, buffers_));
    // Results have all rows.
    plan_.rows = Rows(buffers_.result(0), NumSizesOfFirstResult());
    size_t operands = 0, results = 0;
    if (function_.returns_result()) {
      const XLA_FFI_Buffer& buffer = buffers_.result(results);
      const Parameter like = {
          {XlaFfiKit_ParameterKind_RESULT, function_.returns, 0, {}},
          function_.returned};
      XLA_FFI_KIT_RETURN_IF_ERROR(
          CheckBuffer("result ", results, buffer, like));
      plan_.returned = static_cast<char*>(buffer.data);
      ++results;
    }
    for (const Parameter& parameter : function_.parameters) {
      if (parameter.is_operand()) {
        XLA_FFI_KIT_RETURN_IF_ERROR(CheckBuffer(
            "operand ", operands, buffers_.operand(operands), parameter));
        ++operands;
      } else if (parameter.is_result()) {
        XLA_FFI_KIT_RETURN_IF_ERROR(CheckBuffer(
            "result ", results, buffers_.result(results), parameter));
        ++results;
      }
    }
    // Sizes are known now, wherever their parameters stand.
    operands = 0;
    results = function_.returns_result() ? 1 : 0;
    for (const Parameter& parameter : function_.parameters) {
      Column& column = parameter.is_float() ? plan_.floats[plan_.num_floats++]
                                            : plan_.ints[plan_.num_ints++];
      if (parameter.is_operand()) {
        Set(buffers_.operand(operands++), parameter, column);
      } else if (parameter.is_result()) {
        const XLA_FFI_Buffer& buffer = buffers_.result(results++);
        Set(buffer, parameter, column);
        if (column.stride == 0 || IsInPlace(buffer)) continue;
        plan_.written[plan_.num_written] = static_cast<char*>(buffer.data);
        plan_.written_bytes[plan_.num_written++] = column.stride;
      } else {
        column = {nullptr, 0, nullptr, 0};
        if (parameter.kind == XlaFfiKit_ParameterKind_SIZE) {
          XLA_FFI_KIT_RETURN_IF_ERROR(SizeOf(parameter, &column.constant));
        }
      }
    }
    return {};
  }

 private:
  int64_t NumSizesOfFirstResult() const {
    if (function_.returns_result()) return 0;
    for (const Parameter& parameter : function_.parameters) {
      if (parameter.is_result()) return parameter.num_sizes;
    }
    return 0;
  }

  ffi::Error CheckBuffer(const char* what, size_t i,
                         const XLA_FFI_Buffer& buffer,
                         const Parameter& parameter) {
    if (buffer.dtype == static_cast<XLA_FFI_DataType>(parameter.dtype) &&
        buffer.rank >= parameter.num_sizes) {
      const int64_t rows = Rows(buffer, parameter.num_sizes);
      // Rows share an operand that has one.
      const bool fits =
          rows == plan_.rows || (rows == 1 && parameter.is_operand());
      if (fits && FitSizes(buffer, parameter)) return {};
    }
    const auto own = static_cast<ffi::DataType>(parameter.dtype);
    const auto dtype = static_cast<ffi::DataType>(buffer.dtype);
    return Invalid(function_, what + std::to_string(i),
                   DtypeName(own) + " of " + std::to_string(plan_.rows) +
                       " rows and the sizes of others",
                   DtypeName(dtype) + ShapeText(DimsOf(buffer)));
  }

  bool FitSizes(const XLA_FFI_Buffer& buffer, const Parameter& parameter) {
    const int64_t* own = buffer.dims + (buffer.rank - parameter.num_sizes);
    for (int32_t axis = 0; axis < parameter.num_sizes; ++axis) {
      const int32_t number = parameter.sizes[axis];
      if (number < 0) {
        if (own[axis] != -int64_t{number}) return false;
        continue;
      }
      if (!IsKnown(number)) {
        known_ |= uint32_t{1} << number;
        sizes_[number] = own[axis];
      }
      if (sizes_[number] != own[axis]) return false;
    }
    return true;
  }

  ffi::Error SizeOf(const Parameter& parameter, int64_t* size) const {
    const int32_t number = parameter.sizes[0];
    *size = number < 0        ? -int64_t{number}
            : IsKnown(number) ? sizes_[number]
                              : -1;
    int64_t read = 0;
    parameter.number->widen(reinterpret_cast<const char*>(size), 8, 1, &read);
    // An array has it, and it fits the parameter's type.
    if (*size >= 0 && read == *size) return {};
    return Invalid(function_, "size", "one that fits its type",
                   std::to_string(*size));
  }

  void Set(const XLA_FFI_Buffer& buffer, const Parameter& parameter,
           Column& column) {
    const auto lead = static_cast<size_t>(buffer.rank - parameter.num_sizes);
    int64_t elements = 1;
    for (int64_t axis = buffer.rank - parameter.num_sizes; axis < buffer.rank;
         ++axis) {
      elements *= buffer.dims[axis];
    }
    plan_.longest = std::max(plan_.longest, elements);
    const bool is_shared =
        plan_.rows != 1 && Product(DimsOf(buffer).first(lead)) == 1;
    column.data = static_cast<const char*>(buffer.data);
    column.stride = is_shared ? 0 : elements * parameter.number->bytes;
    column.number = parameter.is_address() ? nullptr : parameter.number;
    column.constant = 0;
  }

  bool IsInPlace(const XLA_FFI_Buffer& result) const {
    for (size_t i = 0; i < buffers_.num_operands(); ++i) {
      if (buffers_.operand(i).data == result.data) return true;
    }
    return false;
  }

  bool IsKnown(int32_t size) const { return (known_ >> size & 1) != 0; }

  const Function& function_;
  const Buffers& buffers_;
  Plan& plan_;
  uint32_t known_ = 0;  // a bit for each of sizes_
  int64_t sizes_[32];
};

// --- Calls -------------------------------------------------------------------

// The arguments of rows from `begin` on: where they are, or made in `memory`.
template <typename T>
const T* Collect(const Column& column, int64_t begin, int64_t count,
                 T* memory) noexcept {
  const char* data = column.data;
  if (data != nullptr) data += begin * column.stride;
  if (column.number == nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      const char* const address = data + i * column.stride;
      memory[i] = data == nullptr
                      ? static_cast<T>(column.constant)
                      : static_cast<T>(reinterpret_cast<intptr_t>(address));
    }
    return memory;
  }
  if (column.number->bytes == 8 && column.stride == 8) {
    return reinterpret_cast<const T*>(data);
  }
  column.number->widen(data, column.stride, count, memory);
  return memory;
}

// What a function that returned a status other than 0 said, and where.
struct Failure {
  std::atomic<int64_t> row{-1};
  std::atomic<int64_t> status{0};

  void Set(int64_t at, int64_t what) {
    int64_t none = -1;
    if (row.compare_exchange_strong(none, at)) status = what;
  }
};

// XLA's results are what their memory was before. A function that reads what it
// is to write (LAPACK's in-out arrays) gets NaN, or -1, and not the numbers of
// another call, which would look right. That takes nothing beside a call per
// number, and a tenth of the time of a copy of nine numbers.
void Spoil(const Plan& plan, int64_t row, int64_t count) {
  for (size_t i = 0; i < plan.num_written; ++i) {
    const int64_t bytes = plan.written_bytes[i];
    std::memset(plan.written[i] + row * bytes, 0xFF,
                static_cast<size_t>(count * bytes));
  }
}

void CallRange(const Plan& plan, int64_t begin, int64_t end,
               Failure* failure) noexcept {
  static constexpr int64_t kNoInts[kBlock] = {};
  static constexpr double kNoFloats[kBlock] = {};
  int64_t int_memory[kMostInts][kBlock];
  double float_memory[kMostFloats][kBlock];
  int64_t out_memory[kBlock];
  const int64_t* ints[kMostInts];
  const double* floats[kMostFloats];
  std::fill(ints, ints + kMostInts, kNoInts);
  std::fill(floats, floats + kMostFloats, kNoFloats);
  const Function& function = *plan.function;
  const Number* const number = function.returned;
  const bool is_direct = plan.returned != nullptr && number->bytes == 8;
  for (int64_t row = begin; row < end; row += kBlock) {
    const int64_t count = std::min(kBlock, end - row);
    for (size_t i = 0; i < plan.num_ints; ++i) {
      ints[i] = Collect(plan.ints[i], row, count, int_memory[i]);
    }
    for (size_t i = 0; i < plan.num_floats; ++i) {
      floats[i] = Collect(plan.floats[i], row, count, float_memory[i]);
    }
    char* const to = plan.returned == nullptr
                         ? nullptr
                         : plan.returned + row * number->bytes;
    void* const out = is_direct ? static_cast<void*>(to) : out_memory;
    Spoil(plan, row, count);
    function.call(function.address, ints, floats, count, out);
    if (to != nullptr && !is_direct) number->narrow(out, count, to);
    if (!function.is_status) continue;
    int64_t statuses[kBlock];
    number->widen(reinterpret_cast<const char*>(out), 8, count, statuses);
    for (int64_t i = 0; i < count; ++i) {
      if (statuses[i] != 0) failure->Set(row + i, statuses[i]);
    }
  }
}

ffi::Error Call(ffi::ThreadPool pool, ffi::RemainingArgs operands,
                ffi::RemainingRets results, ffi::Dictionary attributes) {
  const auto given = attributes.get<std::string_view>("name");
  if (!given.has_value()) return given.error();
  const std::string_view name = *given;
  const Function* const function = Find(name);
  if (function == nullptr) {
    return {ffi::ErrorCode::kFailedPrecondition,
            std::string(name) +
                ": function: expected a C function that this process has "
                "defined, got none of that name; make its operation, by "
                "xla_ffi_kit.c_function or numba_kernel, before the program "
                "runs"};
  }
  std::unique_lock<std::mutex> guard(one_at_a_time, std::defer_lock);
  if (!function->is_thread_safe) guard.lock();
  if (function->takes_arrays()) {
    return CallWithArrays(*function, Buffers{operands, results}, attributes);
  }
  Plan plan;
  XLA_FFI_KIT_RETURN_IF_ERROR(
      Checker(*function, Buffers{operands, results}, plan).Check());
  Failure failure;
  const auto run = [&](int64_t begin, int64_t end) noexcept {
    CallRange(plan, begin, end, &failure);
  };
  if (function->is_thread_safe) {
    const int64_t bytes =
        std::max(kBytesPerCall, kBytesPerElement * plan.longest);
    ParallelFor(pool, plan.rows, bytes, run);
  } else {
    run(0, plan.rows);
  }
  if (failure.row < 0) return {};
  return {ffi::ErrorCode::kInternal,
          std::string(name) + ": status: expected 0, got " +
              std::to_string(failure.status) + " for row " +
              std::to_string(failure.row)};
}

}  // namespace
}  // namespace xla_ffi_kit::call

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitCall, xla_ffi_kit::call::Call,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs());
