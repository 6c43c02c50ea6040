// Calls of a handler, made of what its signature says:
//
//   Choices choices(/*seed=*/1);
//   CallFrame good = Fit(signature, choices);
//   FrameMemory memory(good);
//   EXPECT_TRUE(good.Run(handler).ok());
//   for (Mistake& mistake : Mistakes(signature, good)) {
//     EXPECT_FALSE(mistake.frame.Run(handler).ok()) << mistake.what;
//   }
//
// A HandlerHook adds what a signature cannot say, such as that an index is in
// range.

#ifndef XLA_FFI_TESTING_FRAMES_H_
#define XLA_FFI_TESTING_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_signature.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {

// Where the tests' random numbers come from: a seed, or the bytes of a fuzzing
// engine, and after those numbers that the bytes seed.
class Choices {
 public:
  explicit Choices(uint32_t seed) : random_(seed) {}
  Choices(const uint8_t* data, size_t size)
      : random_(Sum(data, size)), next_(data), left_(size) {}

  uint8_t Byte() {
    if (left_ == 0) return static_cast<uint8_t>(random_() >> 8);
    --left_;
    return *next_++;
  }

  uint64_t Bytes8() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | Byte();
    return value;
  }

  // 0 to n - 1.
  int64_t Below(int64_t n) {
    const uint64_t value = n <= 256 ? Byte() : Bytes8();
    return static_cast<int64_t>(value % static_cast<uint64_t>(n));
  }

 private:
  static uint32_t Sum(const uint8_t* data, size_t size) {  // FNV-1a
    uint32_t sum = 2166136261;
    for (size_t i = 0; i < size; ++i) sum = (sum ^ data[i]) * 16777619;
    return sum;
  }

  std::minstd_rand random_;
  const uint8_t* next_ = nullptr;
  size_t left_ = 0;
};

// --- Good calls --------------------------------------------------------------

// Each returns a call that fits the signature, whose arrays have no memory yet.

// A call with arrays of a few elements.
CallFrame Fit(const XlaFfiKit_Signature& signature, Choices& choices);

// How a large array is divided into rows.
enum class Form { kOneRow, kThousandRows, kShortRows };
inline constexpr Form kForms[] = {Form::kOneRow, Form::kThousandRows,
                                  Form::kShortRows};

// A call with at most `elements` elements in each array, and nearly as many in
// the largest one.
CallFrame FitLarge(const XlaFfiKit_Signature& signature, Choices& choices,
                   int64_t elements, Form form);

// A call in which arrays have no elements, and some have dimensions whose
// product 64 bits do not hold. An array may also have elements: a few, or more
// than there is memory for.
CallFrame FitEmpty(const XlaFfiKit_Signature& signature, Choices& choices);

// A dimension: the product of two, modulo 2^64, is no zero.
inline constexpr int64_t kHugeDim = (int64_t{1} << 40) + 1;

// What a signature cannot say of its handler.
struct HandlerHook {
  // Makes a call that fits the signature one that the handler takes.
  std::function<void(CallFrame&, Choices&)> fit = nullptr;
  // Writes what operands need beside random numbers of 0 to 63.
  std::function<void(CallFrame&)> fill = nullptr;
  // How far results may differ where another number of threads computes them,
  // relative to the largest.
  float tolerance = 0;
};

// By custom call target.
using HandlerHooks = std::map<std::string, HandlerHook>;

// Every package whose handlers are tested defines it: the hooks of those of its
// handlers that need one.
HandlerHooks GetHandlerHooks();

// --- Calls beside what the signature says of them ----------------------------

struct DescribedBuffer {
  const XlaFfiKit_Argument* argument;
  bool is_operand;
  size_t index;  // among the call's operands, or among its results
  // Places of the buffers that its dtype and shape follow from, or -1.
  int dtype_of = -1, shape_of = -1;

  CallFrame::Buffer& In(CallFrame& frame) const {
    return (is_operand ? frame.args() : frame.rets())[index];
  }
  std::string Name() const;  // "operand x"
};

// Operands, then results, of a call that fits the signature in their number.
std::vector<DescribedBuffer> DescribedBuffers(
    const XlaFfiKit_Signature& signature, CallFrame& frame);

// For each argument of the signature, or each attribute, whether the call has
// it.
std::vector<bool> DescribedArguments(const XlaFfiKit_Signature& signature,
                                     CallFrame& frame);
std::vector<bool> DescribedAttributes(const XlaFfiKit_Signature& signature,
                                      CallFrame& frame);

// Sets an attribute of numbers, each element of an array, to this.
void SetNumber(const XlaFfiKit_Attribute& attribute, double value,
               Attributes& attributes);
void SetNumber(const XlaFfiKit_Attribute& attribute, int64_t value,
               Attributes& attributes);

// Every dtype that XLA has, those that handlers take first.
const std::vector<XLA_FFI_DataType>& AllDtypes();

// --- Bad calls ---------------------------------------------------------------

// A call with one mistake.
struct Mistake {
  std::string what;
  CallFrame frame;
};

// Calls like `good`, which fits the signature, with one mistake each that the
// signature names: a number of arguments, a dtype, a rank, a size, an
// attribute's name, type or value. Arrays keep their memory.
std::vector<Mistake> Mistakes(const XlaFfiKit_Signature& signature,
                              const CallFrame& good);

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FRAMES_H_
