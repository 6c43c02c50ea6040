// What a signature says of a call's arguments, and numbers of its dtypes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/testing/frames.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

// Sets each element to `value`, which is an integer or a float.
template <typename Number>
void Set(const XlaFfiKit_Attribute& says, Number value,
         Attributes& attributes) {
  using Types =
      TypeList<bool, Float16, BFloat16, float, double, int8_t, int16_t, int32_t,
               int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
  const auto set = [&](auto tag) {
    using T = typename decltype(tag)::type;
    using From = std::conditional_t<std::is_arithmetic_v<T>, Number, float>;
    const T number = static_cast<T>(static_cast<From>(value));
    if constexpr (std::is_same_v<T, bool>) {
      attributes.Set(says.name, number);
    } else if (says.type == XLA_FFI_AttrType_ARRAY) {
      const size_t size = says.size < 0 ? 2 : static_cast<size_t>(says.size);
      attributes.Set(says.name, std::vector<T>(size, number));
    } else {
      attributes.Set(says.name, number);
    }
    return ffi::Error();
  };
  DispatchDtype(Types(), static_cast<ffi::DataType>(says.dtype), {}, set);
}

}  // namespace

void SetNumber(const XlaFfiKit_Attribute& says, double value,
               Attributes& attributes) {
  Set(says, value, attributes);
}
void SetNumber(const XlaFfiKit_Attribute& says, int64_t value,
               Attributes& attributes) {
  Set(says, value, attributes);
}

const std::vector<XLA_FFI_DataType>& AllDtypes() {
#define XLA_FFI_KIT_DTYPE(dtype, ...) XLA_FFI_DataType_##dtype,
  static const auto& all = *new std::vector<XLA_FFI_DataType>{
      XLA_FFI_KIT_DTYPES(XLA_FFI_KIT_DTYPE)  //
      XLA_FFI_DataType_F8E4M3FN,             //
      XLA_FFI_DataType_F8E4M3B11FNUZ,
      XLA_FFI_DataType_F8E5M2FNUZ,
      XLA_FFI_DataType_F8E4M3FNUZ,
      XLA_FFI_DataType_TOKEN,
      XLA_FFI_DataType_INVALID,
  };
#undef XLA_FFI_KIT_DTYPE
  return all;
}

std::vector<bool> DescribedArguments(const XlaFfiKit_Signature& signature,
                                     CallFrame& frame) {
  if (signature.arguments[0].is_repeated != 0) return {true, true};
  std::vector<bool> are_there;
  const auto decide = [&](size_t end, size_t given) {
    const size_t begin = are_there.size();
    const auto may_be = [&](size_t i) {
      const int32_t with = signature.arguments[i].given_with;
      return with == 0 || are_there[with];
    };
    for (size_t i = begin; i < end; ++i) {
      given -= signature.arguments[i].is_optional == 0 && may_be(i);
    }
    for (size_t i = begin; i < end; ++i) {
      bool is_there = may_be(i);
      if (is_there && signature.arguments[i].is_optional != 0) {
        is_there = given > 0;
        given -= is_there;
      }
      are_there.push_back(is_there);
    }
  };
  // What is required of the operands may depend on the operands before.
  decide(signature.num_operands, frame.args().size());
  decide(signature.num_operands + signature.num_results, frame.rets().size());
  return are_there;
}

std::string DescribedBuffer::Name() const {
  return std::string(is_operand ? "operand " : "result ") + says->name;
}

std::vector<DescribedBuffer> DescribedBuffers(
    const XlaFfiKit_Signature& signature, CallFrame& frame) {
  const size_t operands = frame.args().size(), results = frame.rets().size();
  std::vector<DescribedBuffer> buffers;
  if (signature.arguments[0].is_repeated != 0) {
    for (size_t i = 0; i < operands; ++i) {
      buffers.push_back({&signature.arguments[0], true, i});
    }
    for (size_t i = 0; i < results; ++i) {
      const int model = static_cast<int>(i);
      buffers.push_back({&signature.arguments[1], false, i, model, model});
    }
    return buffers;
  }
  const std::vector<bool> are_there = DescribedArguments(signature, frame);
  std::vector<int> place_of(are_there.size(), -1);
  for (size_t i = 0; i < are_there.size(); ++i) {
    if (!are_there[i]) continue;
    const XlaFfiKit_Argument& says = signature.arguments[i];
    place_of[i] = static_cast<int>(buffers.size());
    const bool is_operand = i < signature.num_operands;
    buffers.push_back({&says, is_operand,
                       buffers.size() - (is_operand ? 0 : operands),
                       says.dtype_of < 0 ? -1 : place_of[says.dtype_of],
                       says.shape_of < 0 ? -1 : place_of[says.shape_of]});
  }
  return buffers;
}

std::vector<bool> DescribedAttributes(const XlaFfiKit_Signature& signature,
                                      CallFrame& frame) {
  const std::vector<bool> there = DescribedArguments(signature, frame);
  std::vector<bool> attributes;
  for (size_t i = 0; i < signature.num_attributes; ++i) {
    const int32_t unless = signature.attributes[i].unless_given;
    attributes.push_back(unless == 0 || !there[unless]);
  }
  return attributes;
}

}  // namespace xla_ffi_kit::testing
