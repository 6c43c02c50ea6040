#include "xla_ffi/testing/handlers/described_call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {
namespace {

using Buffers = std::vector<DescribedBuffer>;
using Dims = CallFrame::Dims;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max(),
                  kMin = std::numeric_limits<int64_t>::min();

constexpr XLA_FFI_DataType kDtypes[] = {
    XLA_FFI_DataType_INVALID, XLA_FFI_DataType_PRED,  XLA_FFI_DataType_S8,
    XLA_FFI_DataType_S16,     XLA_FFI_DataType_S32,   XLA_FFI_DataType_S64,
    XLA_FFI_DataType_U8,      XLA_FFI_DataType_U16,   XLA_FFI_DataType_U32,
    XLA_FFI_DataType_U64,     XLA_FFI_DataType_F16,   XLA_FFI_DataType_BF16,
    XLA_FFI_DataType_F32,     XLA_FFI_DataType_F64,   XLA_FFI_DataType_C64,
    XLA_FFI_DataType_C128,    XLA_FFI_DataType_TOKEN, XLA_FFI_DataType_F8E5M2,
    XLA_FFI_DataType_F8E4M3FN};

// Which of the signature's arguments [begin, end) are there, if `given` are.
// `is_there` says it of those before `begin`, and is made longer.
void Decide(const XlaFfiKit_Signature& signature, size_t begin, size_t end,
            size_t given, std::vector<bool>* is_there) {
  size_t required = 0;
  for (size_t i = begin; i < end; ++i) {
    const XlaFfiKit_Argument& a = signature.arguments[i];
    required +=
        a.is_optional == 0 && (a.given_with == 0 || (*is_there)[a.given_with]);
  }
  size_t optional = given - required;
  for (size_t i = begin; i < end; ++i) {
    const XlaFfiKit_Argument& a = signature.arguments[i];
    if (a.is_optional != 0) {
      is_there->push_back(optional > 0);
      optional -= optional > 0;
    } else {
      is_there->push_back(a.given_with == 0 || (*is_there)[a.given_with]);
    }
  }
}

std::vector<bool> AreThere(const XlaFfiKit_Signature& signature,
                           CallFrame& frame) {
  const size_t operands = signature.num_operands;
  std::vector<bool> are_there;
  Decide(signature, 0, operands, frame.args().size(), &are_there);
  Decide(signature, operands, operands + signature.num_results,
         frame.rets().size(), &are_there);
  return are_there;
}

Buffers RepeatedBuffers(const XlaFfiKit_Signature& signature,
                        CallFrame& frame) {
  Buffers buffers;
  for (size_t i = 0; i < frame.args().size(); ++i) {
    buffers.push_back({&signature.arguments[0], true, i, -1, i > 0 ? 0 : -1});
  }
  for (size_t i = 0; i < frame.rets().size(); ++i) {
    const int model = static_cast<int>(i);
    buffers.push_back({&signature.arguments[1], false, i, model, model});
  }
  return buffers;
}

// Collects calls that differ from `good` in one way.
class Changes {
 public:
  explicit Changes(const CallFrame& good) : good_(good) {}

  template <typename Change>
  void Add(const std::string& what, const Change& change) {
    Mistake& mistake = all_.emplace_back(Mistake{what, good_});
    change(mistake.frame);
  }
  std::vector<Mistake> Take() { return std::move(all_); }

 private:
  const CallFrame& good_;
  std::vector<Mistake> all_;
};

void AddDtypes(const DescribedBuffer& buffer, const CallFrame::Buffer& good,
               Changes& changes) {
  const XlaFfiKit_Argument& says = *buffer.says;
  for (const XLA_FFI_DataType dtype : kDtypes) {
    const int32_t* const end = says.dtypes + says.num_dtypes;
    const bool is_named =
        says.num_dtypes == 0 || std::find(says.dtypes, end, dtype) != end;
    // Another dtype that is named may fit.
    if (dtype == good.dtype || (buffer.dtype_of < 0 && is_named)) continue;
    changes.Add(says.place + std::string(": dtype ") + std::to_string(dtype),
                [&](CallFrame& f) { buffer.In(f).dtype = dtype; });
  }
}

void AddShapes(const DescribedBuffer& buffer, const CallFrame::Buffer& good,
               Changes& changes) {
  const XlaFfiKit_Argument& says = *buffer.says;
  const auto rank = static_cast<int32_t>(good.dims.size());
  const auto add = [&](const std::string& what, const auto& change) {
    changes.Add(std::string(says.place) + ": " + what,
                [&](CallFrame& f) { change(buffer.In(f).dims); });
  };
  const bool has_model = buffer.shape_of >= 0;
  if (rank == says.max_rank || has_model) {
    add("an axis more", [](Dims& dims) { dims.push_back(1); });
  }
  if (rank > 0 && (rank == says.min_rank || has_model)) {
    add("an axis fewer", [](Dims& dims) { dims.pop_back(); });
  }
  for (int32_t axis = 0; axis < rank && has_model; ++axis) {
    const bool is_free = says.shape_form == XlaFfiKit_ShapeForm_BUT_LAST &&
                         says.last == nullptr && axis == rank - 1;
    if (is_free) continue;
    add("axis " + std::to_string(axis) + " longer",
        [&](Dims& dims) { ++dims[axis]; });
  }
  if (std::find(good.dims.begin(), good.dims.end(), 0) == good.dims.end()) {
    changes.Add(says.place + std::string(": no data"),
                [&](CallFrame& f) { buffer.In(f).data = nullptr; });
  }
}

void AddNumbers(const XlaFfiKit_Attribute& says, int64_t rank,
                Changes& changes) {
  const std::string name = says.name;
  std::vector<int64_t> wrong;
  const bool is_bounded = says.min <= says.max;
  if (is_bounded && says.min > kMin) wrong.push_back(says.min - 1);
  if (is_bounded && says.max < kMax) wrong.push_back(says.max + 1);
  if (says.axis_of >= 0) wrong = {-1, rank};
  for (const int64_t value : wrong) {
    changes.Add(name + " of " + std::to_string(value), [&](CallFrame& f) {
      if (says.dtype == XLA_FFI_DataType_F64) {
        f.Attr(name, static_cast<double>(value));
      } else if (says.type == XLA_FFI_AttrType_ARRAY) {
        f.Attr(name,
               std::vector<int64_t>(std::max<int64_t>(says.size, 1), value));
      } else {
        f.Attr(name, value);
      }
    });
  }
  if (is_bounded && says.dtype == XLA_FFI_DataType_F64) {
    const double no_numbers[] = {std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()};
    for (const double value : no_numbers) {
      changes.Add(name + " not finite",
                  [&](CallFrame& f) { f.Attr(name, value); });
    }
  }
  if (says.type == XLA_FFI_AttrType_ARRAY && says.size >= 0) {
    changes.Add(name + " one element longer", [&](CallFrame& f) {
      f.Attr(name, std::vector<int64_t>(says.size + 1,
                                        std::max<int64_t>(says.min, 1)));
    });
  }
}

void AddAttribute(const XlaFfiKit_Attribute& says, int64_t rank,
                  Changes& changes) {
  const std::string name = says.name;
  const auto add = [&](const std::string& what, const auto& value) {
    changes.Add(name + " " + what, [&](CallFrame& f) { f.Attr(name, value); });
  };
  changes.Add("no " + name, [&](CallFrame& f) { f.attributes().Remove(name); });
  add("of dtype u8", uint8_t{1});
  add("an array of u8", std::vector<uint8_t>(2, 1));
  add("a dictionary", Attributes());
  if (says.type == XLA_FFI_AttrType_STRING) {
    add("a number", int64_t{0});
    if (says.num_words > 0) add("of no such word", "no such word");
    return;
  }
  add("a string", "1");
  AddNumbers(says, rank, changes);
}

void AddCounts(const XlaFfiKit_Signature& signature, CallFrame& good,
               Changes& changes) {
  const bool is_repeated = signature.arguments[0].is_repeated != 0;
  const size_t operands = good.args().size(), results = good.rets().size();
  const auto append = [](std::vector<CallFrame::Buffer>& buffers) {
    buffers.push_back(buffers.back());
  };
  if (is_repeated || operands == signature.num_operands) {
    changes.Add("one operand more", [&](CallFrame& f) { append(f.args()); });
  }
  if (is_repeated || results == signature.num_results) {
    changes.Add("one result more", [&](CallFrame& f) { append(f.rets()); });
  }
  changes.Add("no operand", [](CallFrame& f) { f.args().clear(); });
  changes.Add("no result", [](CallFrame& f) { f.rets().clear(); });
}

}  // namespace

Buffers DescribedBuffers(const XlaFfiKit_Signature& signature,
                         CallFrame& frame) {
  if (signature.arguments[0].is_repeated != 0) {
    return RepeatedBuffers(signature, frame);
  }
  const std::vector<bool> are_there = AreThere(signature, frame);
  std::vector<int> place_of(are_there.size(), -1);
  Buffers buffers;
  for (size_t i = 0; i < are_there.size(); ++i) {
    if (!are_there[i]) continue;
    const XlaFfiKit_Argument& says = signature.arguments[i];
    place_of[i] = static_cast<int>(buffers.size());
    const bool is_operand = i < signature.num_operands;
    buffers.push_back(
        {&says, is_operand,
         buffers.size() - (is_operand ? 0 : frame.args().size())});
  }
  for (DescribedBuffer& buffer : buffers) {
    const XlaFfiKit_Argument& says = *buffer.says;
    if (says.dtype_of >= 0) buffer.dtype_of = place_of[says.dtype_of];
    if (says.shape_of >= 0) buffer.shape_of = place_of[says.shape_of];
  }
  return buffers;
}

std::vector<const XlaFfiKit_Attribute*> DescribedAttributes(
    const XlaFfiKit_Signature& signature, CallFrame& frame) {
  const std::vector<bool> are_there = AreThere(signature, frame);
  std::vector<const XlaFfiKit_Attribute*> attributes;
  for (size_t i = 0; i < signature.num_attributes; ++i) {
    const XlaFfiKit_Attribute& attribute = signature.attributes[i];
    const int32_t unless = attribute.unless_given;
    if (unless == 0 || !are_there[unless]) attributes.push_back(&attribute);
  }
  return attributes;
}

std::vector<Mistake> Mistakes(const XlaFfiKit_Signature& signature,
                              const CallFrame& good) {
  CallFrame frame = good;
  Changes changes(good);
  AddCounts(signature, frame, changes);
  for (const DescribedBuffer& buffer : DescribedBuffers(signature, frame)) {
    AddDtypes(buffer, buffer.In(frame), changes);
    AddShapes(buffer, buffer.In(frame), changes);
  }
  changes.Add("an attribute more",
              [](CallFrame& f) { f.Attr("no_such_attribute", int64_t{1}); });
  for (const auto* attribute : DescribedAttributes(signature, frame)) {
    const int32_t of = attribute->axis_of;
    const size_t rank = of < 0 ? 0 : frame.args()[of].dims.size();
    AddAttribute(*attribute, static_cast<int64_t>(rank), changes);
  }
  return changes.Take();
}

}  // namespace xla_ffi_kit::testing
