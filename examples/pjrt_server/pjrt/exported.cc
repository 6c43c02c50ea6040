#include "examples/pjrt_server/pjrt/exported.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace xla_ffi_kit::pjrt {
namespace {

// A position in a flatbuffer, every read of which is checked. A table begins
// with the distance back to its vtable, the 16-bit offsets of its fields;
// vectors and strings are a 32-bit length and the elements.
class Ref {
 public:
  Ref(const std::string* file, size_t at) : file_(file), at_(at) {}

  template <typename T>
  T Read(size_t offset = 0) const {
    T value;
    if (at_ > file_->size() || offset > file_->size() - at_ ||
        sizeof value > file_->size() - at_ - offset) {
      throw Error(
          "is cut off, or not what jax.export's Exported.serialize() wrote");
    }
    std::memcpy(&value, file_->data() + at_ + offset, sizeof value);
    return value;
  }
  // What the 32-bit offset at this position leads to.
  Ref Follow(size_t offset = 0) const {
    return Ref(file_, at_ + offset + Read<uint32_t>(offset));
  }
  // The offset of a field of a table, 0 where it has its default.
  size_t Field(int number) const {
    const Ref vtable(file_, at_ - static_cast<size_t>(Read<int32_t>()));
    const size_t offset = 4 + 2 * static_cast<size_t>(number);
    return offset < vtable.Read<uint16_t>() ? vtable.Read<uint16_t>(offset) : 0;
  }
  template <typename T>
  T Number(int field) const {
    const size_t offset = Field(field);
    return offset == 0 ? T{0} : Read<T>(offset);
  }
  template <typename T>
  std::vector<T> Numbers(int field) const {
    const size_t offset = Field(field);
    return offset == 0 ? std::vector<T>{} : Follow(offset).Elements<T>();
  }
  std::vector<Ref> Refs(int field) const {
    std::vector<Ref> refs;
    const size_t size = Numbers<uint32_t>(field).size();
    for (size_t i = 0; i < size; ++i) {
      refs.push_back(Follow(Field(field)).Follow(4 + 4 * i));
    }
    return refs;
  }
  template <typename T>
  std::vector<T> Elements() const {
    std::vector<T> elements;
    const size_t size = Read<uint32_t>();
    for (size_t i = 0; i < size; ++i) {
      elements.push_back(Read<T>(4 + i * sizeof(T)));
    }
    return elements;
  }

 private:
  const std::string* file_;
  size_t at_;
};

// Fields of the table Exported, in jax/_src/export/serialization.fbs.
enum {
  kFunctionName = 1,
  kInAvals = 3,
  kDevicesShort = 6,
  kPlatforms = 9,
  kOrderedEffects = 10,
  kModule = 13,
  kCallingConvention = 14,
  kKept = 15,
  kDevices = 18,
  kUniqueAvals = 19,
  kInAvalsIndices = 22,
};

std::string Text(const std::vector<char>& chars) {
  return {chars.begin(), chars.end()};
}

Shape ParseShape(const Ref& aval) {
  Shape shape = {nullptr, {}};
  for (const Dtype& dtype : kDtypes) {
    if (dtype.exported == aval.Number<int8_t>(2)) shape.dtype = &dtype;
  }
  if (shape.dtype == nullptr) {
    throw Error("has an argument of a dtype that is not served");
  }
  for (const Ref& dim : aval.Refs(1)) {
    const std::string text = Text(dim.Elements<char>());
    if (text.empty() || text.size() > 18 ||
        text.find_first_not_of("0123456789") != std::string::npos) {
      throw Error("has the symbolic dimension " + text +
                  ": export it for fixed shapes");
    }
    shape.dims.push_back(std::stoll(text));
  }
  shape.Bytes();  // throws if there are too many
  return shape;
}

}  // namespace

Exported ParseExported(const std::string& file) {
  const Ref root = Ref(&file, 0).Follow();
  const int convention = root.Number<uint16_t>(kCallingConvention);
  if (convention < 9 || convention > 10) {  // those of every JAX since 2024
    throw Error("has calling convention " + std::to_string(convention) +
                ": expected 9 or 10, from Exported.serialize() of jax.export");
  }
  if (const size_t platforms = root.Refs(kPlatforms).size(); platforms != 1) {
    throw Error("is for " + std::to_string(platforms) +
                " platforms: export it for one, platforms=[\"cpu\"]");
  }
  if (root.Number<int32_t>(kDevices) > 1 ||
      root.Number<int16_t>(kDevicesShort) > 1) {
    throw Error("is for several devices: export it without a mesh");
  }
  if (!root.Refs(kOrderedEffects).empty()) {
    throw Error("has ordered effects, whose tokens are not served");
  }
  Exported exported;
  // Flatbuffers are written from their end: it comes last, so that a file that
  // is cut off anywhere is refused.
  exported.name = Text(root.Numbers<char>(kFunctionName));
  // Newer files name each type of argument once.
  const auto indices = root.Numbers<uint32_t>(kInAvalsIndices);
  const auto avals = root.Refs(indices.empty() ? kInAvals : kUniqueAvals);
  const size_t size = indices.empty() ? avals.size() : indices.size();
  for (size_t i = 0; i < size; ++i) {
    const size_t aval = indices.empty() ? i : indices[i];
    if (aval >= avals.size()) throw Error("has an argument without a type");
    exported.inputs.push_back(ParseShape(avals[aval]));
  }
  exported.kept = root.Numbers<uint16_t>(kKept);
  for (const uint16_t index : exported.kept) {
    if (index >= size) throw Error("keeps an argument that it has not");
  }
  exported.mlir = Text(root.Numbers<char>(kModule));
  return exported;
}

}  // namespace xla_ffi_kit::pjrt
