#include "accelerate/kernels/random/random_handler.h"

#include <cstddef>
#include <cstdint>

#include "accelerate/kernels/random/random.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::random {
namespace {

namespace ffi = ::xla::ffi;

using WordTypes = TypeList<uint8_t, uint16_t, uint32_t, uint64_t>;

constexpr Argument Words(const Argument& words) {
  return words.Of<uint32_t>("of Threefry's words");
}

constexpr Argument kBitsArguments[] = {
    Words(Operand("operand keys")).RankAtLeast(1),
    Result("result bits").Of(WordTypes()),
};
constexpr Attribute kBitsAttributes[] = {Scalar<bool>("partitionable")};
constexpr XlaFfiKit_Signature kBits = MakeSignature(
    "xla_ffi_accelerate.random_bits", kBitsArguments, kBitsAttributes);

constexpr Argument kHashArguments[] = {
    Words(Operand("operand key0")),
    Words(Operand("operand key1")).ShapeOf(0),
    Words(Operand("operand counter0")),
    Words(Operand("operand counter1")).ShapeOf(2),
    Words(Result("result word0")).ShapeOf(2),
    Words(Result("result word1")).ShapeOf(2),
};
constexpr XlaFfiKit_Signature kHash =
    MakeSignature("xla_ffi_accelerate.threefry2x32", kHashArguments);

// Checks what a signature cannot express: the last axis of the keys has two
// words, and the result's first axes are the keys' other axes.
ffi::Error CheckShapes(const Call& call, Dimensions keys, Dimensions bits) {
  if (keys.back() != 2) {
    return call.Invalid(0, "a last axis of 2 words",
                        "shape " + ShapeText(keys));
  }
  const Dimensions batch = BatchAxes(keys);
  if (bits.size() >= batch.size() && bits.first(batch.size()) == batch) {
    return {};
  }
  return call.Invalid(1, "first axes " + ShapeText(batch),
                      "shape " + ShapeText(bits));
}

ffi::Error RunBits(const Call& call, const Executor& executor) {
  const ffi::AnyBuffer bits = call.result(0);
  const Dimensions keys = call.operand(0).dimensions(),
                   dims = bits.dimensions();
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShapes(call, keys, dims));
  RandomBitsProblem problem;
  problem.keys = call.In<uint32_t>(0);
  problem.out = call.Out<void>(0);
  problem.partitionable = call.Get<bool>("partitionable");
  problem.num_keys = SplitLastAxis(keys).rows;
  problem.size = Product(dims.last(dims.size() + 1 - keys.size()));
  problem.width = static_cast<int64_t>(ffi::ByteWidth(bits.element_type()));
  if (!problem.partitionable &&
      RandomWords(problem.size, problem.width) > kMaxRandomWords) {
    return call.Invalid(1, "less than 2^32 - 1 words of a key",
                        "shape " + ShapeText(dims));
  }
  if (ElementCount(bits) == 0) return {};
  AdviseHugePages(problem.out, SizeBytes(bits));
  RandomBits(problem, executor);
  return {};
}

ffi::Error RunHash(const Call& call, const Executor& executor) {
  const ffi::AnyBuffer key = call.operand(0), counter = call.operand(2);
  Threefry2x32Problem problem;
  problem.is_one_key = key.dimensions().size() == 0;
  if (!problem.is_one_key) {
    XLA_FFI_KIT_RETURN_IF_ERROR(CheckShape({call.operation(), "operand key0"},
                                           key, counter.dimensions(),
                                           "like operand counter0"));
  }
  problem.size = ElementCount(counter);
  for (size_t i = 0; i < 2; ++i) {
    problem.keys[i] = call.In<uint32_t>(i);
    problem.counters[i] = call.In<uint32_t>(2 + i);
    problem.out[i] = call.Out<uint32_t>(i);
    AdviseHugePages(problem.out[i], SizeBytes(counter));
  }
  Threefry2x32(problem, executor);
  return {};
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateRandomBitsCpu,
                              (Checked<kBits, RunBits>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateRandomBitsCpu, kBits);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateThreefry2x32Cpu,
                              (Checked<kHash, RunHash>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateThreefry2x32Cpu, kHash);

}  // namespace xla_ffi_accelerate::random
