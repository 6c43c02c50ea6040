#include "accelerate/kernels/random/random_handler.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "accelerate/kernels/random/random.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kBits = "xla_ffi_accelerate.random_bits";
constexpr std::string_view kHash = "xla_ffi_accelerate.threefry2x32";

ffi::Error CheckWords(const Place& where, ffi::AnyBuffer buffer) {
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where, buffer, ffi::U32, "of Threefry's words"));
  return CheckData(where, buffer);
}

ffi::Error CheckKeys(ffi::AnyBuffer keys) {
  const Place where = {kBits, "operand keys"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where, keys, 1));
  if (keys.dimensions().back() != 2) {
    return InvalidArgument(where, "a last axis of 2 words",
                           "shape " + ShapeText(keys.dimensions()));
  }
  return CheckWords(where, keys);
}

// The result's first axes are those of the keys.
ffi::Error CheckBatch(ffi::AnyBuffer bits, Dimensions batch) {
  const Place where = {kBits, "result bits"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where, bits, batch.size()));
  if (!(bits.dimensions().first(batch.size()) == batch)) {
    return InvalidArgument(where, "first axes " + ShapeText(batch),
                           "shape " + ShapeText(bits.dimensions()));
  }
  return CheckData(where, bits);
}

ffi::Error RandomBitsImpl(ffi::ThreadPool pool, ffi::AnyBuffer keys,
                          ffi::Result<ffi::AnyBuffer> bits,
                          bool partitionable) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckKeys(keys));
  const Dimensions batch = BatchAxes(keys.dimensions());
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBatch(*bits, batch));
  RandomBitsProblem problem;
  problem.keys = static_cast<const uint32_t*>(keys.untyped_data());
  problem.out = bits->untyped_data();
  problem.partitionable = partitionable;
  problem.num_keys = SplitLastAxis(keys.dimensions()).rows;
  const Dimensions dims = bits->dimensions();
  problem.size = Product(dims.last(dims.size() - batch.size()));
  return DispatchDtype(
      TypeList<uint8_t, uint16_t, uint32_t, uint64_t>(), bits->element_type(),
      {kBits, "result bits"}, [&](auto tag) -> ffi::Error {
        problem.width = sizeof(typename decltype(tag)::type);
        if (!partitionable &&
            RandomWords(problem.size, problem.width) > kMaxRandomWords) {
          return InvalidArgument({kBits, "result bits"},
                                 "less than 2^32 - 1 words of a key",
                                 "shape " + ShapeText(dims));
        }
        if (ElementCount(*bits) == 0) return {};
        AdviseHugePages(problem.out, SizeBytes(*bits));
        RandomBits(problem, pool);
        return {};
      });
}

ffi::Error Threefry2x32Impl(ffi::ThreadPool pool, ffi::AnyBuffer key0,
                            ffi::AnyBuffer key1, ffi::AnyBuffer counter0,
                            ffi::AnyBuffer counter1,
                            ffi::Result<ffi::AnyBuffer> word0,
                            ffi::Result<ffi::AnyBuffer> word1,
                            ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckNoAttributes(kHash, attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckWords({kHash, "operand counter0"}, counter0));
  const std::string_view like = "like operand counter0";
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kHash, "operand counter1"}, counter1, counter0, like));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kHash, "result word0"}, *word0, counter0, like));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kHash, "result word1"}, *word1, counter0, like));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckWords({kHash, "operand key0"}, key0));
  const bool is_one_key = key0.dimensions().size() == 0;
  if (!is_one_key) {
    XLA_FFI_KIT_RETURN_IF_ERROR(
        CheckShape({kHash, "operand key0"}, key0, counter0.dimensions(), like));
  }
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kHash, "operand key1"}, key1, key0, "like operand key0"));
  const auto words = [](ffi::AnyBuffer buffer) {
    return static_cast<uint32_t*>(buffer.untyped_data());
  };
  Threefry2x32Problem problem;
  problem.size = ElementCount(counter0);
  problem.is_one_key = is_one_key;
  problem.keys[0] = words(key0);
  problem.keys[1] = words(key1);
  problem.counters[0] = words(counter0);
  problem.counters[1] = words(counter1);
  problem.out[0] = words(*word0);
  problem.out[1] = words(*word1);
  for (uint32_t* out : problem.out) AdviseHugePages(out, SizeBytes(*word0));
  Threefry2x32(problem, pool);
  return {};
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateRandomBitsCpu,
                              xla_ffi_kit::RandomBitsImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()     // keys
                                  .Ret<xla::ffi::AnyBuffer>()     // bits
                                  .Attr<bool>("partitionable"));  // the layout

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateThreefry2x32Cpu,
                              xla_ffi_kit::Threefry2x32Impl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // key0
                                  .Arg<xla::ffi::AnyBuffer>()  // key1
                                  .Arg<xla::ffi::AnyBuffer>()  // counter0
                                  .Arg<xla::ffi::AnyBuffer>()  // counter1
                                  .Ret<xla::ffi::AnyBuffer>()  // word0
                                  .Ret<xla::ffi::AnyBuffer>()  // word1
                                  .Attrs());                   // none
