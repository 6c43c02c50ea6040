#include "xla_ffi/call/functions.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>  // NOLINT
#include <string>
#include <string_view>
#include <type_traits>

#include "xla/ffi/api/c_api.h"

namespace xla_ffi_kit::call {
namespace {

// --- Numbers -----------------------------------------------------------------

// What is in 8 bytes of a column for a T: see registers.h.
template <typename T>
using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

template <typename T>
void WidenTo(const char* from, int64_t stride, int64_t count, void* column) {
  auto* to = static_cast<char*>(column);
  for (int64_t i = 0; i < count; ++i, from += stride, to += 8) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    if constexpr (std::is_integral_v<T>) {
      const auto wide = static_cast<int64_t>(value);
      std::memcpy(to, &wide, sizeof(wide));
    } else {
      std::memcpy(to, &value, sizeof(T));
    }
  }
}

template <typename T>
void NarrowFrom(const void* column, int64_t count, char* to) {
  const auto* from = static_cast<const char*>(column);
  // Both have the low bytes first.
  for (int64_t i = 0; i < count; ++i, from += 8, to += sizeof(T)) {
    std::memcpy(to, from, sizeof(T));
  }
}

template <typename T>
constexpr Number kNumber = {sizeof(T), std::is_floating_point_v<T>, WidenTo<T>,
                            NarrowFrom<T>};

}  // namespace

const Number* FindNumber(int32_t dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_PRED:
    case XLA_FFI_DataType_U8:
      return &kNumber<uint8_t>;
    case XLA_FFI_DataType_S8:
      return &kNumber<int8_t>;
    case XLA_FFI_DataType_S16:
      return &kNumber<int16_t>;
    case XLA_FFI_DataType_S32:
      return &kNumber<int32_t>;
    case XLA_FFI_DataType_S64:
      return &kNumber<int64_t>;
    case XLA_FFI_DataType_U16:
      return &kNumber<uint16_t>;
    case XLA_FFI_DataType_U32:
      return &kNumber<uint32_t>;
    case XLA_FFI_DataType_U64:
      return &kNumber<uint64_t>;
    case XLA_FFI_DataType_F32:
      return &kNumber<float>;
    case XLA_FFI_DataType_F64:
      return &kNumber<double>;
    default:
      return nullptr;
  }
}

namespace {

// --- The table ---------------------------------------------------------------

// Each chain grows at its head, under the lock, so that calls read without it.
constexpr size_t kChains = 256;
std::atomic<const Function*> chains[kChains];
std::mutex lock;

std::atomic<const Function*>& ChainOf(std::string_view name) {
  return chains[std::hash<std::string_view>()(name) % kChains];
}

bool IsSameParameter(const Parameter& a, const Parameter& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.num_sizes == b.num_sizes &&
         std::equal(a.sizes, a.sizes + std::min(a.num_sizes, 4), b.sizes);
}

bool IsSame(const Function& a, const Function& b) {
  return a.address == b.address && a.returns == b.returns &&
         a.failure == b.failure && a.is_status == b.is_status &&
         a.is_thread_safe == b.is_thread_safe &&
         std::equal(a.parameters.begin(), a.parameters.end(),
                    b.parameters.begin(), b.parameters.end(), IsSameParameter);
}

// --- Definitions -------------------------------------------------------------

// What is wrong with a parameter, or null.
const char* Add(const XlaFfiKit_Parameter& given, Function* function) {
  const Parameter parameter = {given, FindNumber(given.dtype)};
  if (function->takes_arrays()) {
    const bool is_array = parameter.is_address() ||
                          given.kind == XlaFfiKit_ParameterKind_ATTRIBUTE;
    if (!is_array || given.num_sizes < 0) {
      return "parameters: expected arrays and attributes, got another";
    }
    function->num_operands += parameter.is_operand();
    function->num_results += parameter.is_result();
    function->parameters.push_back(parameter);
    return nullptr;
  }
  if (parameter.number == nullptr) {
    return "parameters: expected dtypes of C's numbers, got another";
  }
  if (given.kind < XlaFfiKit_ParameterKind_VALUE ||
      given.kind > XlaFfiKit_ParameterKind_ZERO) {
    return "parameters: expected known kinds, got another";
  }
  const bool is_size = given.kind == XlaFfiKit_ParameterKind_SIZE;
  const int32_t least = is_size ? 1 : 0;
  const int32_t most = is_size ? 1 : parameter.is_address() ? 4 : 0;
  if (given.num_sizes < least || given.num_sizes > most ||
      std::any_of(given.sizes, given.sizes + given.num_sizes,
                  [](int32_t size) { return size >= 32; })) {
    return "parameters: expected up to 4 sizes of 32, got others";
  }
  if ((is_size || given.kind == XlaFfiKit_ParameterKind_ZERO) &&
      parameter.number->is_float) {
    return "parameters: expected sizes to be integers, got floats";
  }
  function->num_operands += parameter.is_operand();
  function->num_results += parameter.is_result();
  function->parameters.push_back(parameter);
  return nullptr;
}

// Reads what is given; null, or what is wrong with it.
const char* Read(const XlaFfiKit_Function& given, Function* function) {
  if (given.struct_size < sizeof(XlaFfiKit_Function) || given.name == nullptr ||
      given.signature == nullptr) {
    return "function: expected all fields, got less; update who defines it";
  }
  if (given.address == nullptr) return "function: expected one, got null";
  function->name = given.name;
  function->signature = given.signature;
  if (given.failure != nullptr) function->failure = given.failure;
  function->address = given.address;
  function->is_status = given.is_status != 0;
  function->is_thread_safe = given.is_thread_safe != 0;
  function->returns = given.returns;
  function->returned = FindNumber(given.returns);
  if (function->returned == nullptr &&
      given.returns != XLA_FFI_DataType_INVALID) {
    return "returns: expected one of C's numbers or void, got another";
  }
  if (function->is_status &&
      (function->returned == nullptr || function->returned->is_float)) {
    return "returns: expected an integer as status, got another type";
  }
  function->num_results = function->returns_result();
  size_t ints = 0, floats = 0;
  for (size_t i = 0; i < given.num_parameters; ++i) {
    if (const char* problem = Add(given.parameters[i], function)) {
      return problem;
    }
    if (function->takes_arrays()) continue;
    ++(function->parameters.back().is_float() ? floats : ints);
  }
  if (ints > kMostInts || floats > kMostFloats) {
    return "parameters: expected at most 6 integers and pointers and 8 floats, "
           "which registers pass, got more";
  }
  if (function->num_results == 0) {
    return "results: expected at least one, got none";
  }
  function->call =
      FindCall(ints, floats,
               function->returned != nullptr && function->returned->is_float);
  return nullptr;
}

}  // namespace

const Function* Find(std::string_view name) {
  const Function* found = ChainOf(name).load(std::memory_order_acquire);
  while (found != nullptr && found->name != name) found = found->next;
  return found;
}

}  // namespace xla_ffi_kit::call

const char* XlaFfiKit_define_function(const XlaFfiKit_Function* given) {
  using xla_ffi_kit::call::Function;
  auto function = std::make_unique<Function>();
  if (const char* problem = xla_ffi_kit::call::Read(*given, function.get())) {
    return problem;
  }
  std::lock_guard<std::mutex> guard(xla_ffi_kit::call::lock);
  if (const Function* known = xla_ffi_kit::call::Find(function->name)) {
    return xla_ffi_kit::call::IsSame(*known, *function)
               ? nullptr
               : "name: expected one of its own, got that of another C "
                 "function of this process";
  }
  auto& chain = xla_ffi_kit::call::ChainOf(function->name);
  function->next = chain.load(std::memory_order_relaxed);
  chain.store(function.release(), std::memory_order_release);
  return nullptr;
}
