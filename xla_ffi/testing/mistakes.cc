#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/testing/frames.h"

namespace xla_ffi_kit::testing {
namespace {

using Dims = CallFrame::Dims;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max(),
                  kMin = std::numeric_limits<int64_t>::min();

constexpr size_t kNoAxis = std::numeric_limits<size_t>::max();

// Collects calls that differ from `good` in one way.
class Collector {
 public:
  Collector(const XlaFfiKit_Signature& signature, const CallFrame& good)
      : signature_(signature),
        good_(good),
        buffers_(DescribedBuffers(signature, good_)) {}

  std::vector<Mistake> All() {
    AddCounts();
    for (size_t i = 0; i < buffers_.size(); ++i) {
      AddDtypes(buffers_[i]);
      AddShapes(i);
    }
    AddBounds();
    Add("an attribute more",
        [](CallFrame& f) { f.Attr("no_such_attribute", int64_t{1}); });
    const std::vector<bool> there = DescribedAttributes(signature_, good_);
    for (size_t i = 0; i < there.size(); ++i) {
      const XlaFfiKit_Attribute& attribute = signature_.attributes[i];
      if (there[i]) {
        AddAttribute(attribute);
      } else {
        Add(std::string(attribute.name) + ", which an argument replaces",
            [&](CallFrame& f) { f.Attr(attribute.name, int64_t{1}); });
      }
    }
    return std::move(all_);
  }

 private:
  template <typename Change>
  void Add(const std::string& what, const Change& change) {
    Mistake& mistake = all_.emplace_back(Mistake{what, good_});
    change(mistake.frame);
  }
  // Adds a call where buffer `i` has other dimensions.
  template <typename Change>
  void AddDims(size_t i, const std::string& what, const Change& change) {
    Add(buffers_[i].Name() + ": " + what,
        [&](CallFrame& f) { change(buffers_[i].In(f).dims); });
  }

  const Dims& DimsOf(size_t i) { return buffers_[i].In(good_).dims; }
  // How many of its axes come before those that the signature names.
  size_t BatchAxes(size_t i) {
    return DimsOf(i).size() - buffers_[i].argument->num_sizes;
  }
  bool HasSizes(size_t i) const {
    return buffers_[i].argument->shape_form == XlaFfiKit_ShapeForm_SIZES;
  }

  void AddCounts();
  void AddDtypes(const DescribedBuffer& buffer);
  void AddShapes(size_t i);
  void AddRanks(size_t i);
  void AddBounds();
  void AddAttribute(const XlaFfiKit_Attribute& attribute);
  void AddNumbers(const XlaFfiKit_Attribute& attribute);
  void AddAxes(const XlaFfiKit_Attribute& attribute);

  bool IsModel(size_t i, size_t axis);
  bool IsModel(size_t i) { return IsModel(i, kNoAxis); }
  size_t WithoutAxis(const DescribedBuffer& buffer, CallFrame& frame) const;
  bool IsBatchElsewhere(size_t i, size_t axis);
  bool IsBound(size_t i, size_t axis);
  size_t Uses(int32_t size) const;
  void SetSize(int32_t size, int64_t value, CallFrame& frame);
  void Follow(CallFrame& frame) const;

  const XlaFfiKit_Signature& signature_;
  CallFrame good_;
  std::vector<DescribedBuffer> buffers_;
  std::vector<Mistake> all_;
};

void Collector::AddCounts() {
  const auto append = [](std::vector<CallFrame::Buffer>& buffers) {
    buffers.push_back(buffers.back());
  };
  const bool is_repeated = signature_.arguments[0].is_repeated != 0;
  const size_t operands = good_.args().size(), results = good_.rets().size();
  Add("no operand", [](CallFrame& f) { f.args().clear(); });
  if (is_repeated || operands == signature_.num_operands) {
    Add("one operand more", [&](CallFrame& f) { append(f.args()); });
  }
  size_t most = 0, least = 0;
  const std::vector<bool> there = DescribedArguments(signature_, good_);
  for (size_t i = signature_.num_operands; i < there.size(); ++i) {
    const XlaFfiKit_Argument& argument = signature_.arguments[i];
    const bool may_be = argument.given_with == 0 || there[argument.given_with];
    most += may_be;
    least += may_be && argument.is_optional == 0;
  }
  if (results == 0) return;
  if (is_repeated || results == most) {
    Add("one result more", [&](CallFrame& f) { append(f.rets()); });
  }
  if (is_repeated || results == least) {
    Add("one result fewer", [&](CallFrame& f) { f.rets().pop_back(); });
  }
}

void Collector::AddDtypes(const DescribedBuffer& buffer) {
  const XlaFfiKit_Argument& argument = *buffer.argument;
  const XLA_FFI_DataType good = buffer.In(good_).dtype;
  for (const XLA_FFI_DataType dtype : AllDtypes()) {
    const int32_t* const end = argument.dtypes + argument.num_dtypes;
    const bool is_named = argument.num_dtypes == 0 ||
                          std::find(argument.dtypes, end, dtype) != end;
    // Another dtype that is named may fit.
    if (dtype == good || (buffer.dtype_of < 0 && is_named)) continue;
    Add(buffer.Name() + ": dtype " + std::to_string(dtype),
        [&](CallFrame& f) { buffer.In(f).dtype = dtype; });
  }
}

// The axis of its model that a shape lacks.
size_t Collector::WithoutAxis(const DescribedBuffer& buffer,
                              CallFrame& frame) const {
  const int32_t axis = buffer.argument->without_axis;
  if (axis < 0) return kNoAxis;
  return frame.attributes().Integer(signature_.attributes[axis].name);
}

// Whether another shape follows from this one, and has this axis of it.
bool Collector::IsModel(size_t i, size_t axis) {
  return std::any_of(buffers_.begin(), buffers_.end(), [&](const auto& b) {
    return b.shape_of == static_cast<int>(i) &&
           (axis == kNoAxis || axis != WithoutAxis(b, good_));
  });
}

// Whether another argument has the batch axis, or, if axis is the rank, would
// have to have it.
bool Collector::IsBatchElsewhere(size_t i, size_t axis) {
  for (size_t j = 0; j < buffers_.size(); ++j) {
    if (j == i || !HasSizes(j)) continue;
    const int32_t batch = buffers_[j].argument->batch;
    if (batch == XlaFfiKit_Batch_ALL) return true;
    if (batch == XlaFfiKit_Batch_SHARED && BatchAxes(j) > axis) return true;
  }
  return false;
}

// How many axes of the call have this size.
size_t Collector::Uses(int32_t size) const {
  size_t uses = 0;
  for (const DescribedBuffer& b : buffers_) {
    const int32_t* const sizes = b.argument->sizes;
    uses += std::count(sizes, sizes + b.argument->num_sizes, size);
  }
  return uses;
}

// Whether the axis cannot have another length.
bool Collector::IsBound(size_t i, size_t axis) {
  if (!HasSizes(i)) return buffers_[i].shape_of >= 0 || IsModel(i, axis);
  const XlaFfiKit_Argument& argument = *buffers_[i].argument;
  if (IsModel(i, axis) ||
      (axis < BatchAxes(i) && argument.batch == XlaFfiKit_Batch_SHARED)) {
    return true;
  }
  if (axis < BatchAxes(i)) return IsBatchElsewhere(i, axis);
  const int32_t number = argument.sizes[axis - BatchAxes(i)];
  const XlaFfiKit_Size& size = signature_.sizes[number];
  return size.name_size == 0 || size.attribute >= 0 || Uses(number) > 1;
}

void Collector::AddShapes(size_t i) {
  AddRanks(i);
  const Dims& dims = DimsOf(i);
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (!IsBound(i, axis)) continue;
    AddDims(i, "axis " + std::to_string(axis) + " longer",
            [&](Dims& d) { ++d[axis]; });
  }
  if (std::find(dims.begin(), dims.end(), 0) == dims.end()) {
    Add(buffers_[i].Name() + ": no data",
        [&](CallFrame& f) { buffers_[i].In(f).data = nullptr; });
  }
}

void Collector::AddRanks(size_t i) {
  const XlaFfiKit_Argument& argument = *buffers_[i].argument;
  const size_t rank = DimsOf(i).size();
  const auto more = [](Dims& dims) { dims.insert(dims.begin(), 1); };
  const auto fewer = [](Dims& dims) { dims.erase(dims.begin()); };
  bool is_bound = buffers_[i].shape_of >= 0 || IsModel(i);
  if (HasSizes(i)) {
    is_bound |= argument.batch == XlaFfiKit_Batch_NONE;
    is_bound |= argument.batch == XlaFfiKit_Batch_ALL &&
                IsBatchElsewhere(i, std::numeric_limits<size_t>::max() - 1);
    if (argument.num_sizes > 0) {
      AddDims(i, "too few axes",
              [&](Dims& d) { d.resize(argument.num_sizes - 1); });
    }
  }
  if (argument.batch == XlaFfiKit_Batch_SHARED) {
    size_t most = 0;
    for (size_t j = 0; j < buffers_.size(); ++j) {
      const bool has_batch = buffers_[j].argument->batch == XlaFfiKit_Batch_ALL;
      if (has_batch) most = std::max(most, BatchAxes(j));
    }
    AddDims(i, "more axes than rows have",
            [&](Dims& d) { d.insert(d.begin(), most - BatchAxes(i) + 1, 1); });
  }
  if (!is_bound) return;
  AddDims(i, "an axis more", more);
  if (rank > 0) AddDims(i, "an axis fewer", fewer);
}

// Gives every axis of this size that length, and shapes that follow theirs.
void Collector::SetSize(int32_t size, int64_t value, CallFrame& frame) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const XlaFfiKit_Argument& argument = *buffers_[i].argument;
    for (size_t j = 0; j < argument.num_sizes; ++j) {
      if (argument.sizes[j] != size) continue;
      buffers_[i].In(frame).dims[BatchAxes(i) + j] = value;
    }
  }
  Follow(frame);
}

// The shapes that are like others, as those are now.
void Collector::Follow(CallFrame& frame) const {
  for (const DescribedBuffer& b : buffers_) {
    if (b.shape_of < 0) continue;
    Dims dims = buffers_[b.shape_of].In(frame).dims;
    const size_t axis = WithoutAxis(b, frame);
    if (axis != kNoAxis) {
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    }
    b.In(frame).dims = std::move(dims);
  }
}

// Sizes out of their bounds, wherever they stand.
void Collector::AddBounds() {
  for (size_t i = 0; i < signature_.num_sizes; ++i) {
    const XlaFfiKit_Size& size = signature_.sizes[i];
    const auto number = static_cast<int32_t>(i);
    if (size.name_size == 0 || Uses(number) == 0) continue;
    const std::string name(size.name, size.name_size);
    const auto add = [&](int64_t value) {
      Add(name + " of " + std::to_string(value), [&](CallFrame& f) {
        SetSize(number, value, f);
        if (size.attribute < 0) return;
        SetNumber(signature_.attributes[size.attribute], value, f.attributes());
      });
    };
    if (size.min > 0) add(size.min - 1);
    if (size.max < kMax) add(size.max + 1);
    if (size.attribute < 0) continue;
    Add(name + ", the attribute, of another value", [&](CallFrame& f) {
      SetNumber(signature_.attributes[size.attribute], int64_t{77777},
                f.attributes());
    });
  }
}

void Collector::AddAttribute(const XlaFfiKit_Attribute& attribute) {
  const std::string name = attribute.name;
  const auto add = [&](const std::string& what, const auto& value) {
    Add(name + " " + what, [&](CallFrame& f) { f.Attr(name, value); });
  };
  Add("no " + name, [&](CallFrame& f) { f.attributes().Remove(name); });
  Add(name + " misspelled", [&](CallFrame& f) {
    f.attributes().Remove(name);
    f.Attr(name + "_", int64_t{1});
  });
  add("a dictionary", Attributes());
  const bool is_u8 = attribute.dtype == XLA_FFI_DataType_U8;
  XlaFfiKit_Attribute other = attribute;
  other.size = attribute.size < 0 ? 2 : attribute.size;
  other.dtype = is_u8 ? XLA_FFI_DataType_U16 : XLA_FFI_DataType_U8;
  for (const auto type : {XLA_FFI_AttrType_SCALAR, XLA_FFI_AttrType_ARRAY}) {
    other.type = type;
    Add(name + " of another dtype",
        [&](CallFrame& f) { SetNumber(other, int64_t{1}, f.attributes()); });
  }
  if (attribute.type == XLA_FFI_AttrType_STRING) {
    if (attribute.num_words > 0) add("of no such word", "no such word");
    return;
  }
  add("a string", "1");
  other.dtype = attribute.dtype == XLA_FFI_DataType_PRED ? XLA_FFI_DataType_S64
                                                         : attribute.dtype;
  other.type = attribute.type == XLA_FFI_AttrType_ARRAY
                   ? XLA_FFI_AttrType_SCALAR
                   : XLA_FFI_AttrType_ARRAY;
  Add(name + " an array, or none",
      [&](CallFrame& f) { SetNumber(other, int64_t{1}, f.attributes()); });
  if (attribute.axis_of < 0) {
    AddNumbers(attribute);
  } else {
    AddAxes(attribute);
  }
}

// Numbers out of their bounds.
void Collector::AddNumbers(const XlaFfiKit_Attribute& attribute) {
  const std::string name = attribute.name;
  const bool is_array = attribute.type == XLA_FFI_AttrType_ARRAY;
  const bool is_bounded = attribute.min <= attribute.max;
  XlaFfiKit_Attribute not_empty = attribute;
  not_empty.size = std::max<int64_t>(attribute.size, 1);
  const auto add = [&](auto value) {
    Add(name + " of " + std::to_string(value),
        [&](CallFrame& f) { SetNumber(not_empty, value, f.attributes()); });
  };
  const bool is_unsigned = attribute.dtype >= XLA_FFI_DataType_U8 &&
                           attribute.dtype <= XLA_FFI_DataType_U64;
  if (is_bounded && attribute.min > (is_unsigned ? 0 : kMin))
    add(attribute.min - 1);
  if (is_bounded && attribute.max < kMax) add(attribute.max + 1);
  const bool is_float = attribute.dtype == XLA_FFI_DataType_F64 ||
                        attribute.dtype == XLA_FFI_DataType_F32;
  if (is_bounded && is_float) {
    add(std::numeric_limits<double>::infinity());
    add(std::numeric_limits<double>::quiet_NaN());
  }
  if (!is_array || attribute.size < 0) return;
  for (const int64_t size : {attribute.size - 1, attribute.size + 1}) {
    XlaFfiKit_Attribute other = attribute;
    other.size = std::max<int64_t>(size, 0);
    if (other.size == attribute.size) continue;
    Add(name + " of " + std::to_string(size) + " elements", [&](CallFrame& f) {
      SetNumber(other, std::max<int64_t>(is_bounded ? attribute.min : 1, 1),
                f.attributes());
    });
  }
}

// Axes that there are not, and axes of a length that they may not have.
void Collector::AddAxes(const XlaFfiKit_Attribute& attribute) {
  const auto of = std::find_if(
      buffers_.begin(), buffers_.end(), [&](const DescribedBuffer& b) {
        return b.argument == &signature_.arguments[attribute.axis_of];
      });
  if (of == buffers_.end()) return;
  const auto rank = static_cast<int64_t>(of->In(good_).dims.size());
  for (const int64_t axis : {int64_t{-1}, rank}) {
    Add(attribute.name + std::string(" of ") + std::to_string(axis),
        [&](CallFrame& f) { f.Attr(attribute.name, axis); });
  }
  std::vector<int64_t> lengths;
  if (attribute.min > 0) lengths.push_back(attribute.min - 1);
  if (attribute.max < kMax) lengths.push_back(attribute.max + 1);
  for (const int64_t length : lengths) {
    Add(attribute.name + std::string(", an axis of ") + std::to_string(length),
        [&](CallFrame& f) {
          of->In(f).dims[f.attributes().Integer(attribute.name)] = length;
          Follow(f);
        });
  }
}

}  // namespace

std::vector<Mistake> Mistakes(const XlaFfiKit_Signature& signature,
                              const CallFrame& good) {
  return Collector(signature, good).All();
}

}  // namespace xla_ffi_kit::testing
