#include "xla_ffi/testing/frames.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtypes.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;
using Dims = CallFrame::Dims;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

bool IsFloat(int32_t dtype) {
  return dtype == XLA_FFI_DataType_F64 || dtype == XLA_FFI_DataType_F32;
}

XLA_FFI_DataType AccumulationOf(XLA_FFI_DataType dtype) {
  const bool is_wide =
      dtype == XLA_FFI_DataType_F64 || dtype == XLA_FFI_DataType_C128;
  return is_wide ? XLA_FFI_DataType_F64 : XLA_FFI_DataType_F32;
}

// Elements, at most 2^62.
int64_t CountOf(const Dims& dims) {
  if (std::count(dims.begin(), dims.end(), 0) > 0) return 0;
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count = dim > (int64_t{1} << 62) / count ? int64_t{1} << 62 : count * dim;
  }
  return count;
}

// Sets each element to `value`, which is an integer or a float.
template <typename Number>
void Set(const XlaFfiKit_Attribute& attribute, Number value,
         Attributes& attributes) {
  using Types =
      TypeList<bool, Float16, BFloat16, float, double, int8_t, int16_t, int32_t,
               int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
  const auto set = [&](auto tag) {
    using T = typename decltype(tag)::type;
    using From = std::conditional_t<std::is_arithmetic_v<T>, Number, float>;
    const T number = static_cast<T>(static_cast<From>(value));
    if constexpr (std::is_same_v<T, bool>) {
      attributes.Set(attribute.name, number);
    } else if (attribute.type == XLA_FFI_AttrType_ARRAY) {
      const size_t size =
          attribute.size < 0 ? 2 : static_cast<size_t>(attribute.size);
      attributes.Set(attribute.name, std::vector<T>(size, number));
    } else {
      attributes.Set(attribute.name, number);
    }
    return ffi::Error();
  };
  DispatchDtype(Types(), static_cast<ffi::DataType>(attribute.dtype), {}, set);
}

class Fitter {
 public:
  Fitter(const XlaFfiKit_Signature& signature, Choices& choices)
      : signature_(signature), choices_(choices) {
    for (size_t i = 0; i < signature.num_attributes; ++i) {
      const XlaFfiKit_Attribute& attribute = signature.attributes[i];
      if (attribute.axis_of < 0) continue;
      has_axis_ = true;
      least_length_ = std::max(least_length_, attribute.min);
    }
    ChooseArguments();
  }

  // Chooses the sizes and the batch: every dimension one of any().
  void ChooseSizes(const std::function<int64_t()>& any);
  // Halves the largest until no array has more elements than that.
  void Shrink(int64_t elements);
  // Makes them as large as arrays of so many elements let them be.
  void Enlarge(int64_t elements, Form form);
  // Leaves arrays without elements.
  void Empty();
  CallFrame Make();

 private:
  size_t num_arguments() const {
    return signature_.num_operands + signature_.num_results;
  }
  const XlaFfiKit_Argument& argument(size_t i) const {
    return signature_.arguments[i];
  }
  int64_t Least(size_t size) const;
  int64_t Most(size_t size) const;
  bool IsFree(size_t size) const { return Least(size) < Most(size); }
  bool TakesBatch() const;

  void ChooseArguments();
  int64_t LargestCount();
  void Grow(int64_t elements, int64_t* value, int64_t most);
  void Add(size_t i, size_t number, CallFrame& frame);
  XLA_FFI_DataType DtypeOf(size_t i, size_t number, CallFrame& frame);
  Dims DimsOf(size_t i, size_t number, CallFrame& frame);
  Dims SizesOf(size_t i, size_t batch_axes) const;
  void ChooseAxes(size_t i, const Dims& dims);
  void AddAttribute(size_t i, CallFrame& frame);
  void AddNumber(const XlaFfiKit_Attribute& attribute, CallFrame& frame);

  const XlaFfiKit_Signature& signature_;
  Choices& choices_;
  bool has_axis_ = false;
  int64_t least_length_ = 0;    // of what is an axis
  std::vector<size_t> counts_;  // of each argument: 0, 1, or of repeated ones
  Dims batch_;
  std::vector<int64_t> sizes_;
  std::map<size_t, int64_t> axes_;    // of attributes
  std::vector<size_t> first_places_;  // of each argument among its kind
};

void Fitter::ChooseArguments() {
  const auto repeated = static_cast<size_t>(1 + choices_.Below(4));
  int64_t left[] = {choices_.Below(4), choices_.Below(4)};
  for (size_t i = 0; i < num_arguments(); ++i) {
    const int32_t with = argument(i).given_with;
    bool is_there = with == 0 || counts_[with] > 0;
    if (is_there && argument(i).is_optional != 0) {
      is_there = left[i >= signature_.num_operands]-- > 0;
    }
    counts_.push_back(!is_there                      ? 0
                      : argument(i).is_repeated != 0 ? repeated
                                                     : 1);
  }
}

int64_t Fitter::Least(size_t size) const {
  const XlaFfiKit_Size& s = signature_.sizes[size];
  if (s.attribute < 0) return s.min;
  const XlaFfiKit_Attribute& a = signature_.attributes[s.attribute];
  return a.min > a.max ? s.min : std::max(s.min, a.min);
}

int64_t Fitter::Most(size_t size) const {
  const XlaFfiKit_Size& s = signature_.sizes[size];
  if (s.attribute < 0) return s.max;
  const XlaFfiKit_Attribute& a = signature_.attributes[s.attribute];
  return a.min > a.max ? s.max : std::min(s.max, a.max);
}

bool Fitter::TakesBatch() const {
  for (size_t i = 0; i < num_arguments(); ++i) {
    if (counts_[i] == 0) continue;
    if (argument(i).batch == XlaFfiKit_Batch_ALL) return true;
    if (argument(i).shape_form == XlaFfiKit_ShapeForm_ANY) return true;
  }
  return false;
}

void Fitter::ChooseSizes(const std::function<int64_t()>& any) {
  for (size_t i = 0; i < signature_.num_sizes; ++i) {
    sizes_.push_back(std::clamp(any(), Least(i), Most(i)));
  }
  batch_.resize(std::max<int64_t>(choices_.Below(3), has_axis_ ? 1 : 0));
  for (int64_t& dim : batch_) dim = std::max(any(), least_length_);
}

int64_t Fitter::LargestCount() {
  int64_t most = 0;
  for (size_t i = 0; i < num_arguments(); ++i) {
    if (counts_[i] > 0) {
      most = std::max(most, CountOf(SizesOf(i, batch_.size())));
    }
  }
  return most;
}

void Fitter::Shrink(int64_t elements) {
  std::vector<std::pair<int64_t*, int64_t>> values;  // and their least
  for (int64_t& dim : batch_) values.emplace_back(&dim, least_length_);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    values.emplace_back(&sizes_[i], Least(i));
  }
  const auto excess = [](const auto& v) { return *v.first - v.second; };
  while (LargestCount() > elements) {
    const auto& [value, least] = *std::max_element(
        values.begin(), values.end(),
        [&](const auto& a, const auto& b) { return excess(a) < excess(b); });
    if (*value <= least) return;
    *value = std::max(*value / 2, least);
  }
}

// The largest value, up to `most`, with arrays of up to `elements`.
void Fitter::Grow(int64_t elements, int64_t* value, int64_t most) {
  int64_t least = *value;
  most = std::min(most, elements);
  while (least < most) {
    *value = least + (most - least + 1) / 2;
    (LargestCount() <= elements ? least : most) =
        LargestCount() <= elements ? *value : *value - 1;
  }
  *value = least;
}

void Fitter::Enlarge(int64_t elements, Form form) {
  const int64_t rows = form == Form::kThousandRows ? 1000 : 1;
  size_t free = 0;
  for (size_t i = 0; i < sizes_.size(); ++i) free += IsFree(i);
  // Without a size to grow, the rows are of the batch's last axis.
  const bool is_batch_rows = free == 0 || has_axis_;
  batch_.assign(is_batch_rows ? 2 : 1, rows);
  if (is_batch_rows) batch_.back() = form == Form::kShortRows ? 3 : 1;
  if (form == Form::kOneRow && choices_.Below(2) > 0) {
    batch_.erase(batch_.begin());
  }
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (IsFree(i)) sizes_[i] = std::clamp<int64_t>(3, Least(i), Most(i));
  }
  if (form != Form::kShortRows) {
    if (is_batch_rows && TakesBatch()) Grow(elements, &batch_.back(), kMax);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (IsFree(i)) Grow(elements, &sizes_[i], Most(i));
    }
  }
  if (batch_.empty() || !TakesBatch()) return;
  Grow(elements, &batch_.front(), kMax);
}

void Fitter::Empty() {
  const auto is_empty = [](int64_t dim) { return dim == 0; };
  if (std::any_of(batch_.begin(), batch_.end(), is_empty)) return;
  if (std::any_of(sizes_.begin(), sizes_.end(), is_empty)) return;
  if (TakesBatch()) {
    if (batch_.empty()) batch_.push_back(0);
    batch_[choices_.Below(static_cast<int64_t>(batch_.size()))] = 0;
    return;
  }
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (IsFree(i) && Least(i) == 0) sizes_[i] = 0;
  }
}

CallFrame Fitter::Make() {
  CallFrame frame;
  for (size_t i = 0; i < num_arguments(); ++i) {
    const bool is_operand = i < signature_.num_operands;
    first_places_.push_back((is_operand ? frame.args() : frame.rets()).size());
    for (size_t j = 0; j < counts_[i]; ++j) Add(i, j, frame);
  }
  for (size_t i = 0; i < signature_.num_attributes; ++i) {
    const int32_t unless = signature_.attributes[i].unless_given;
    if (unless == 0 || counts_[unless] == 0) AddAttribute(i, frame);
  }
  return frame;
}

void Fitter::Add(size_t i, size_t number, CallFrame& frame) {
  const XLA_FFI_DataType dtype = DtypeOf(i, number, frame);
  const Dims dims = DimsOf(i, number, frame);
  if (i < signature_.num_operands) {
    frame.Arg(dtype, nullptr, dims);
  } else {
    frame.Ret(dtype, nullptr, dims);
  }
  if (number == 0) ChooseAxes(i, dims);
}

// The argument that another follows from.
const CallFrame::Buffer& BufferOfModel(CallFrame& frame, bool is_operand,
                                       size_t place) {
  return is_operand ? frame.args()[place] : frame.rets()[place];
}

XLA_FFI_DataType Fitter::DtypeOf(size_t i, size_t number, CallFrame& frame) {
  const XlaFfiKit_Argument& to = argument(i);
  const int64_t choice = choices_.Byte();
  if (to.dtype_of >= 0) {
    const auto of = static_cast<size_t>(to.dtype_of);
    const size_t place = first_places_[of] + (counts_[of] > 1 ? number : 0);
    const XLA_FFI_DataType dtype =
        BufferOfModel(frame, of < signature_.num_operands, place).dtype;
    const bool is_same = to.dtype_form == XlaFfiKit_DtypeForm_SAME;
    return is_same ? dtype : AccumulationOf(dtype);
  }
  if (to.num_dtypes == 0) return AllDtypes()[choice % 8];
  const auto count = static_cast<int64_t>(to.num_dtypes);
  return static_cast<XLA_FFI_DataType>(to.dtypes[choice % count]);
}

Dims Fitter::SizesOf(size_t i, size_t batch_axes) const {
  const XlaFfiKit_Argument& to = argument(i);
  Dims dims;
  if (to.shape_form == XlaFfiKit_ShapeForm_ANY ||
      to.batch != XlaFfiKit_Batch_NONE) {
    dims.assign(batch_.begin(),
                batch_.begin() + static_cast<std::ptrdiff_t>(batch_axes));
  }
  for (size_t j = 0; j < to.num_sizes; ++j) {
    dims.push_back(sizes_[to.sizes[j]]);
  }
  return dims;
}

Dims Fitter::DimsOf(size_t i, size_t number, CallFrame& frame) {
  const XlaFfiKit_Argument& to = argument(i);
  if (to.shape_form == XlaFfiKit_ShapeForm_SIZES ||
      to.shape_form == XlaFfiKit_ShapeForm_ANY) {
    size_t axes = batch_.size();
    if (to.batch == XlaFfiKit_Batch_SHARED) {
      axes = choices_.Below(static_cast<int64_t>(axes) + 1);
      if (!TakesBatch()) axes = 0;
    }
    return SizesOf(i, axes);
  }
  const auto of = static_cast<size_t>(to.shape_of);
  const size_t place = first_places_[of] + (counts_[of] > 1 ? number : 0);
  Dims dims = BufferOfModel(frame, of < signature_.num_operands, place).dims;
  if (to.shape_form == XlaFfiKit_ShapeForm_WITHOUT_AXIS) {
    dims.erase(dims.begin() +
               static_cast<std::ptrdiff_t>(axes_[to.without_axis]));
  }
  return dims;
}

// Chooses an axis for each attribute that is one of this argument: of a length
// that it may have, if there is one.
void Fitter::ChooseAxes(size_t i, const Dims& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  for (size_t k = 0; k < signature_.num_attributes && rank > 0; ++k) {
    const XlaFfiKit_Attribute& a = signature_.attributes[k];
    if (a.axis_of != static_cast<int32_t>(i)) continue;
    int64_t axis = choices_.Below(rank);
    for (int64_t j = 0; j < rank; ++j) {
      if (dims[axis] >= a.min && dims[axis] <= a.max) break;
      axis = (axis + 1) % rank;
    }
    axes_[k] = axis;
  }
}

void Fitter::AddAttribute(size_t i, CallFrame& frame) {
  const XlaFfiKit_Attribute& a = signature_.attributes[i];
  if (a.axis_of >= 0) {
    frame.Attr(a.name, axes_[i]);
    return;
  }
  for (size_t k = 0; k < signature_.num_sizes; ++k) {
    if (signature_.sizes[k].attribute != static_cast<int32_t>(i)) continue;
    frame.Attr(a.name, sizes_[k]);
    return;
  }
  if (a.type == XLA_FFI_AttrType_STRING) {
    const auto count = static_cast<int64_t>(a.num_words);
    const char* const text =
        count == 0 ? "text" : a.words[choices_.Below(count)];
    frame.Attr(a.name, text);
  } else {
    AddNumber(a, frame);
  }
}

void Fitter::AddNumber(const XlaFfiKit_Attribute& attribute, CallFrame& frame) {
  const bool is_bounded = attribute.min <= attribute.max;
  const int64_t least = is_bounded ? attribute.min : 0;
  const int64_t most = is_bounded ? attribute.max : 1;
  // Mostly one of the first numbers.
  const int64_t choice = choices_.Byte();
  int64_t number = most - least < 4 ? least + choice % (most - least + 1)
                   : least < 0      ? choice % 4
                                    : least + choice % 4;
  if (choice >= 240 && most < kMax) number = most;
  if (attribute.other_dtype != 0 && choice % 2 > 0) {
    frame.Attr(attribute.name, static_cast<float>(number));
  } else if (IsFloat(attribute.dtype) && number < most) {
    SetNumber(attribute, static_cast<double>(number) + 1.0 / 8,
              frame.attributes());
  } else {
    SetNumber(attribute, number, frame.attributes());
  }
}

}  // namespace

void SetNumber(const XlaFfiKit_Attribute& attribute, double value,
               Attributes& attributes) {
  Set(attribute, value, attributes);
}
void SetNumber(const XlaFfiKit_Attribute& attribute, int64_t value,
               Attributes& attributes) {
  Set(attribute, value, attributes);
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
  const auto decide = [&](size_t end, size_t count) {
    const size_t begin = are_there.size();
    const auto may_be = [&](size_t i) {
      const int32_t with = signature.arguments[i].given_with;
      return with == 0 || are_there[with];
    };
    for (size_t i = begin; i < end; ++i) {
      count -= signature.arguments[i].is_optional == 0 && may_be(i);
    }
    for (size_t i = begin; i < end; ++i) {
      bool is_there = may_be(i);
      if (is_there && signature.arguments[i].is_optional != 0) {
        is_there = count > 0;
        count -= is_there;
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
  return std::string(is_operand ? "operand " : "result ") + argument->name;
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
    const XlaFfiKit_Argument& argument = signature.arguments[i];
    place_of[i] = static_cast<int>(buffers.size());
    const bool is_operand = i < signature.num_operands;
    buffers.push_back(
        {&argument, is_operand, buffers.size() - (is_operand ? 0 : operands),
         argument.dtype_of < 0 ? -1 : place_of[argument.dtype_of],
         argument.shape_of < 0 ? -1 : place_of[argument.shape_of]});
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

CallFrame Fit(const XlaFfiKit_Signature& signature, Choices& choices) {
  Fitter fitter(signature, choices);
  // Mostly a few; up to more than the longest vector there is.
  fitter.ChooseSizes([&]() -> int64_t {
    const int64_t choice = choices.Byte();
    return choice < 192 ? choice % 6 : choice % 40;
  });
  fitter.Shrink(int64_t{1} << 14);
  return fitter.Make();
}

CallFrame FitLarge(const XlaFfiKit_Signature& signature, Choices& choices,
                   int64_t elements, Form form) {
  Fitter fitter(signature, choices);
  fitter.ChooseSizes([] { return int64_t{1}; });
  fitter.Enlarge(elements, form);
  return fitter.Make();
}

CallFrame FitEmpty(const XlaFfiKit_Signature& signature, Choices& choices) {
  Fitter fitter(signature, choices);
  constexpr int64_t kDims[] = {0, 3, kHugeDim, kHugeDim};
  fitter.ChooseSizes([&] { return kDims[choices.Below(4)]; });
  fitter.Empty();
  return fitter.Make();
}

}  // namespace xla_ffi_kit::testing
