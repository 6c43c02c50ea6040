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
// What no signature says, as that an index is in range, a HandlerHook knows.

#ifndef XLA_FFI_TESTING_FRAMES_H_
#define XLA_FFI_TESTING_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_signature.h"
#include "xla_ffi/testing/attributes.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/choices.h"

namespace xla_ffi_kit::testing {

// --- Good calls --------------------------------------------------------------

// Calls that fit the signature. Their arrays have no memory yet.
//
// Of a few elements:
CallFrame Fit(const XlaFfiKit_Signature& signature, Choices& choices);

// How a large array is divided into rows.
enum class Form { kOneRow, kThousandRows, kShortRows };
inline constexpr Form kForms[] = {Form::kOneRow, Form::kThousandRows,
                                  Form::kShortRows};

// Of up to `elements` in each array, and nearly as many in the largest:
CallFrame FitLarge(const XlaFfiKit_Signature& signature, Choices& choices,
                   int64_t elements, Form form);

// Of arrays without elements, some of whose dimensions' products 64 bits do not
// hold. An array may also have elements, few or more than there is memory for.
CallFrame FitEmpty(const XlaFfiKit_Signature& signature, Choices& choices);

// A dimension: the product of two, modulo 2^64, is no zero.
inline constexpr int64_t kHugeDim = (int64_t{1} << 40) + 1;

// What no signature says of a handler.
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

// What a package defines: the hooks of those of its handlers that need one.
HandlerHooks GetHandlerHooks();

// --- Calls beside what the signature says of them ----------------------------

struct DescribedBuffer {
  const XlaFfiKit_Argument* says;
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

// Which of the signature's arguments, and of its attributes, such a call has.
std::vector<bool> DescribedArguments(const XlaFfiKit_Signature& signature,
                                     CallFrame& frame);
std::vector<bool> DescribedAttributes(const XlaFfiKit_Signature& signature,
                                      CallFrame& frame);

// Sets an attribute of numbers, each element of an array, to this.
void SetNumber(const XlaFfiKit_Attribute& says, double value,
               Attributes& attributes);
void SetNumber(const XlaFfiKit_Attribute& says, int64_t value,
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
