#include "accelerate/kernels/isin/isin_handler.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/isin/isin.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.isin";

ffi::Error Check(ffi::AnyBuffer element, ffi::AnyBuffer test,
                 ffi::AnyBuffer is_in) {
  const Place where_element = {kOp, "operand element"},
              where_test = {kOp, "operand test"},
              where_is_in = {kOp, "result is_in"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where_element, element, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where_test, test, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckDtype(
      where_test, test, element.element_type(), "like operand element"));
  const auto dims = element.dimensions();
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShapeButLast(
      where_test, test, dims, test.dimensions().back(),
      "matching operand element except in the last dimension"));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where_is_in, is_in, ffi::PRED, "for truth values"));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckShape(where_is_in, is_in, dims, "like operand element"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where_element, element));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where_test, test));
  return CheckData(where_is_in, is_in);
}

ffi::Error IsinImpl(ffi::ThreadPool pool, ffi::AnyBuffer element,
                    ffi::AnyBuffer test, ffi::Result<ffi::AnyBuffer> is_in,
                    ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckNoAttributes(kOp, attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(Check(element, test, *is_in));
  const BatchShape shape = SplitLastAxis(element.dimensions());
  IsinProblem problem;
  problem.rows = shape.rows;
  problem.elements = shape.length;
  problem.tests = test.dimensions().back();
  problem.element = element.untyped_data();
  problem.test = test.untyped_data();
  problem.is_in = static_cast<bool*>(is_in->untyped_data());
  return DispatchDtype(
      KeyTypes(), element.element_type(), {kOp, "operand element"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        if (ElementCount(element) == 0) return {};
        problem.code = OrderedKey<T>(SubnormalsAreZero());
        const ScratchStatus status = Isin(problem, pool);
        if (status) return {};
        return ScratchExhausted(
            kOp, "for a table of " + std::to_string(problem.tests) + " tests",
            status);
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateIsinCpu, xla_ffi_kit::IsinImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // element
                                  .Arg<xla::ffi::AnyBuffer>()  // test
                                  .Ret<xla::ffi::AnyBuffer>()  // is_in
                                  .Attrs());                   // none
