// C functions called by their names: what arrives, and what is refused.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/call/function.h"
#include "xla_ffi/testing/call_frame.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitCall);

namespace xla_ffi_kit::call {
namespace {

using testing::CallFrame;
using testing::Status;

constexpr int32_t kF32 = XLA_FFI_DataType_F32;
constexpr int32_t kF64 = XLA_FFI_DataType_F64;
constexpr int32_t kS8 = XLA_FFI_DataType_S8;
constexpr int32_t kS32 = XLA_FFI_DataType_S32;
constexpr int32_t kS64 = XLA_FFI_DataType_S64;
constexpr int32_t kU16 = XLA_FFI_DataType_U16;

using Parameters = std::vector<XlaFfiKit_Parameter>;

XlaFfiKit_Parameter Value(int32_t dtype) {
  return {XlaFfiKit_ParameterKind_VALUE, dtype, 0, {}};
}
XlaFfiKit_Parameter Row(bool is_result, int32_t dtype, int32_t size = 0) {
  return {is_result ? XlaFfiKit_ParameterKind_RESULT
                    : XlaFfiKit_ParameterKind_OPERAND,
          dtype,
          1,
          {size}};
}
XlaFfiKit_Parameter Size(int32_t dtype) {
  return {XlaFfiKit_ParameterKind_SIZE, dtype, 1, {0}};
}

// Defines a function; the error, if there is one.
template <typename F>
std::string Define(const char* name, F* function, int32_t returns,
                   const Parameters& parameters, bool is_status = false,
                   bool is_thread_safe = true) {
  const XlaFfiKit_Function given = {sizeof(XlaFfiKit_Function),
                                    name,
                                    "the test's",
                                    reinterpret_cast<void*>(function),
                                    returns,
                                    is_status,
                                    is_thread_safe,
                                    parameters.size(),
                                    parameters.data(),
                                    nullptr};
  const char* const problem = XlaFfiKit_define_function(&given);
  return problem == nullptr ? "" : problem;
}

Status RunIt(CallFrame frame, const char* name, int64_t threads = 1) {
  return frame.Attr("name", std::string(name))
      .Threads(threads)
      .Run(XlaFfiKitCall);
}

// Of each kind as many as registers pass, in an order that mixes them.
double Mixed(int8_t a, double b, float c, uint16_t d, double e, int64_t f,
             float g, double h, int32_t i, double j, float k, int8_t l,
             double m, int64_t n) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i +
         10 * j + 11 * k + 12 * l + 13 * m + 14 * n;
}

TEST(CallTest, ArgumentsOfAnyOrderArrive) {
  const Parameters parameters = {
      Value(kS8),  Value(kF64), Value(kF32), Value(kU16), Value(kF64),
      Value(kS64), Value(kF32), Value(kF64), Value(kS32), Value(kF64),
      Value(kF32), Value(kS8),  Value(kF64), Value(kS64)};
  ASSERT_EQ(Define("mixed", Mixed, kF64, parameters), "");
  const int64_t rows = 131;  // more than two blocks
  std::vector<int8_t> a(rows), l(rows);
  std::vector<double> b(rows), e(rows), h(rows), j(rows), m(rows), y(rows);
  std::vector<float> c(rows), g(rows), k(rows);
  std::vector<uint16_t> d(rows);
  std::vector<int64_t> f(rows), n(rows);
  std::vector<int32_t> i(rows);
  for (int64_t at = 0; at < rows; ++at) {
    a[at] = static_cast<int8_t>(at - 128);
    l[at] = static_cast<int8_t>(-at);
    b[at] = e[at] = at + 0.5;
    h[at] = j[at] = m[at] = -at - 0.25;
    c[at] = g[at] = k[at] = static_cast<float>(at) / 4;
    d[at] = static_cast<uint16_t>(65535 - at);
    f[at] = (int64_t{1} << 40) + at;
    n[at] = -f[at];
    i[at] = static_cast<int32_t>(-at);
  }
  const CallFrame::Dims dims = {rows};
  const Status status = RunIt(CallFrame()
                                  .Arg(a, dims)
                                  .Arg(b, dims)
                                  .Arg(c, dims)
                                  .Arg(d, dims)
                                  .Arg(e, dims)
                                  .Arg(f, dims)
                                  .Arg(g, dims)
                                  .Arg(h, dims)
                                  .Arg(i, dims)
                                  .Arg(j, dims)
                                  .Arg(k, dims)
                                  .Arg(l, dims)
                                  .Arg(m, dims)
                                  .Arg(n, dims)
                                  .Ret(y, dims),
                              "mixed");
  ASSERT_EQ(status.message, "");
  for (int64_t at = 0; at < rows; ++at) {
    EXPECT_EQ(y[at], Mixed(a[at], b[at], c[at], d[at], e[at], f[at], g[at],
                           h[at], i[at], j[at], k[at], l[at], m[at], n[at]))
        << at;
  }
}

float Twice(float x) { return 2 * x; }
float Thrice(float x) { return 3 * x; }

TEST(CallTest, OnManyThreads) {
  ASSERT_EQ(Define("twice", Twice, kF32, {Value(kF32)}), "");
  std::vector<float> x(100'000), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const CallFrame::Dims dims = {100'000};
  ASSERT_TRUE(RunIt(CallFrame().Arg(x, dims).Ret(y, dims), "twice", 4).ok());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 2 * x[i]);
}

int32_t Sum(const double* x, int32_t n, double* sum) {
  *sum = 0;
  for (int32_t i = 0; i < n; ++i) *sum += x[i];
  return n == 0 ? 5 : 0;
}

TEST(CallTest, RowsTheirSizesAndAStatus) {
  const XlaFfiKit_Parameter sum = {XlaFfiKit_ParameterKind_RESULT, kF64, 0, {}};
  const Parameters parameters = {Row(false, kF64), Size(kS32), sum};
  ASSERT_EQ(Define("sum", Sum, kS32, parameters, true), "");
  std::vector<double> x = {1, 2, 3, 4, 5, 6}, y(2);
  CallFrame frame = CallFrame().Arg(x, {2, 3}).Ret(y, {2});
  ASSERT_EQ(RunIt(frame, "sum").message, "");
  EXPECT_EQ(y, (std::vector<double>{6, 15}));
  // One row serves all.
  frame.args()[0].dims = {3};
  y = {0, 0};
  ASSERT_EQ(RunIt(frame, "sum").message, "");
  EXPECT_EQ(y, (std::vector<double>{6, 6}));
  frame.args()[0].dims = {2, 0};
  EXPECT_EQ(RunIt(frame, "sum").message,
            "sum: status: expected 0, got 5 for row 0");
}

void Copy(const float* x, float* y, int8_t n) {
  for (int8_t i = 0; i < n; ++i) y[i] = x[i];
}

TEST(CallTest, WhatDoesNotFitIsRefused) {
  const Parameters parameters = {Row(false, kF32), Row(true, kF32), Size(kS8)};
  ASSERT_EQ(Define("copy", Copy, 0, parameters), "");
  std::vector<float> x(400), y(400);
  std::vector<double> wide(400);
  const CallFrame good = CallFrame().Arg(x, {4, 100}).Ret(y, {4, 100});
  EXPECT_EQ(RunIt(good, "copy").message, "");
  const auto refused = [](const CallFrame& frame, const std::string& why) {
    const Status status = RunIt(frame, "copy");
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_EQ(status.message, "copy: " + why);
  };
  refused(CallFrame(good).Arg(x, {4, 100}),
          "operands: expected 1, as the test's, got 2");
  refused(CallFrame().Arg(x, {4, 100}),
          "results: expected 1, as the test's, got 0");
  refused(CallFrame().Arg(wide, {4, 100}).Ret(y, {4, 100}),
          "operand 0: expected f32 of 4 rows and the sizes of others, as the "
          "test's, got f64(4, 100)");
  refused(CallFrame().Arg(x, {4, 100}).Ret(y, {4, 99}),
          "result 0: expected f32 of 4 rows and the sizes of others, as the "
          "test's, got f32(4, 99)");
  refused(CallFrame().Arg(x, {2, 100}).Ret(y, {4, 100}),
          "operand 0: expected f32 of 4 rows and the sizes of others, as the "
          "test's, got f32(2, 100)");
  refused(CallFrame().Arg(x, {}).Ret(y, {}),
          "operand 0: expected f32 of 1 rows and the sizes of others, as the "
          "test's, got f32()");
  refused(CallFrame().Arg(x, {2, 200}).Ret(y, {2, 200}),
          "size: expected one that fits its type, as the test's, got 200");
}

void AddTo(const double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}
// Leaves the second number of `y` alone.
int32_t First(double x, int16_t* y) {
  y[0] = static_cast<int16_t>(x);
  return 0;
}

TEST(CallTest, WhatIsReadOfAResultIsNoNumberThatWasThere) {
  const Parameters parameters = {Row(false, kF64), Row(true, kF64), Size(kS64)};
  ASSERT_EQ(Define("add", AddTo, 0, parameters), "");
  for (const int64_t n : {1, 3, 5000}) {
    std::vector<double> x(130 * n, 2), y(130 * n, 7);
    const CallFrame frame = CallFrame().Arg(x, {130, n}).Ret(y, {130, n});
    ASSERT_EQ(RunIt(frame, "add").message, "");
    for (const double value : y) ASSERT_TRUE(std::isnan(value));
    // An operand in the place of a result is what it is.
    const CallFrame same = CallFrame().Arg(x, {130, n}).Ret(x, {130, n});
    ASSERT_EQ(RunIt(same, "add").message, "");
    EXPECT_EQ(x, std::vector<double>(130 * n, 4));
  }
  XlaFfiKit_Parameter pair = Row(true, XLA_FFI_DataType_S16, -2);
  ASSERT_EQ(Define("first", First, kS32, {Value(kF64), pair}, true), "");
  std::vector<double> x = {1, 2};
  std::vector<int16_t> y(4, 7);
  const CallFrame frame = CallFrame().Arg(x, {2}).Ret(y, {2, 2});
  ASSERT_EQ(RunIt(frame, "first").message, "");
  EXPECT_EQ(y, (std::vector<int16_t>{1, -1, 2, -1}));
}

// --- Functions of arrays -----------------------------------------------------

// y = x * factors[0] + shared; fails without factors.
int64_t Polynomial(const void* const* data, const int64_t* sizes) {
  const auto* x = static_cast<const float*>(data[0]);
  const auto* shared = static_cast<const float*>(data[1]);
  const auto* factors = static_cast<const double*>(data[2]);
  auto* y = static_cast<float*>(const_cast<void*>(data[3]));
  // x: rows and an axis; shared: rows and an axis; factors; y as x.
  if (sizes[4] == 0) return 1;
  for (int64_t i = 0; i < sizes[0] * sizes[1]; ++i) {
    const float factor = static_cast<float>(factors[0]);
    y[i] = x[i] * factor + shared[i % (sizes[2] * sizes[3])];
  }
  return sizes[0] == sizes[5] && sizes[1] == sizes[6] ? 0 : 2;
}

TEST(CallTest, AFunctionOfArrays) {
  const XlaFfiKit_Parameter factors = {
      XlaFfiKit_ParameterKind_ATTRIBUTE, kF64, 1, {}};
  const Parameters parameters = {Row(false, kF32), Row(false, kF32), factors,
                                 Row(true, kF32)};
  const auto define = [](const Parameters& own, const char* failure) {
    const XlaFfiKit_Function given = {sizeof(XlaFfiKit_Function),
                                      "polynomial",
                                      "the test's",
                                      reinterpret_cast<void*>(Polynomial),
                                      0,
                                      0,
                                      1,
                                      own.size(),
                                      own.data(),
                                      failure};
    const char* const problem = XlaFfiKit_define_function(&given);
    return std::string(problem == nullptr ? "" : problem);
  };
  EXPECT_EQ(define({Row(false, kF32), Size(kS32), Row(true, kF32)}, "no"),
            "parameters: expected arrays and attributes, got another");
  ASSERT_EQ(define(parameters, "it failed"), "");
  EXPECT_EQ(define(parameters, "it failed"), "");
  EXPECT_EQ(define(parameters, "another"),
            "name: expected one of its own, got that of another C function of "
            "this process");
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, shared = {10, 20, 30}, y(6);
  std::vector<double> wide(6);
  const CallFrame good =
      CallFrame().Arg(x, {2, 3}).Arg(shared, {3}).Ret(y, {2, 3});
  const double two = 2;
  int64_t word = 0;
  std::memcpy(&word, &two, sizeof(word));
  const auto run = [](CallFrame frame, const std::vector<int64_t>& values) {
    return RunIt(frame.Attr("values", values), "polynomial").message;
  };
  EXPECT_EQ(run(good, {kF64, 1, 1, word}), "");
  EXPECT_EQ(y, (std::vector<float>{12, 24, 36, 18, 30, 42}));
  EXPECT_EQ(run(good, {kF64, 0, 0}), "it failed");
  const std::string others =
      "polynomial: values: expected attributes of the declared types, as the "
      "test's, got others";
  EXPECT_EQ(run(good, {kF64, 2, 2, word}), others);
  EXPECT_EQ(run(good, {kF32, 1, 1, word}), others);
  EXPECT_EQ(RunIt(good, "polynomial").message, others);
  EXPECT_EQ(run(CallFrame().Arg(x, {2, 3}).Ret(y, {2, 3}), {}),
            "polynomial: operands: expected 2, as the test's, got 1");
  EXPECT_EQ(run(CallFrame().Arg(x, {2, 3}).Arg(shared, {}).Ret(y, {2, 3}), {}),
            "polynomial: operand 1: expected f32 with at least 1 axes, as the "
            "test's, got f32()");
  EXPECT_EQ(
      run(CallFrame().Arg(x, {2, 3}).Arg(shared, {3}).Ret(wide, {2, 3}),
          {kF64, 1, 1, word}),
      "polynomial: result 0: expected f32 with at least 1 axes, as the test's, "
      "got f64(2, 3)");
}

TEST(CallTest, AFunctionThatIsNotThere) {
  std::vector<float> x(1);
  const Status status = RunIt(CallFrame().Ret(x, {1}), "gone");
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
  EXPECT_EQ(status.message,
            "gone: function: expected a C function that this process has "
            "defined, got none of that name; make its operation, by "
            "xla_ffi_kit.c_function or numba_kernel, before the program runs");
}

TEST(CallTest, Definitions) {
  const Parameters one = {Value(kF32)};
  EXPECT_EQ(Define("own", Twice, kF32, one), "");
  EXPECT_EQ(Define("own", Twice, kF32, one), "");
  const std::string taken =
      "name: expected one of its own, got that of another C function of this "
      "process";
  EXPECT_EQ(Define("own", Thrice, kF32, one), taken);
  EXPECT_EQ(Define("own", Twice, kF32, one, false, false), taken);
  EXPECT_EQ(Define<float(float)>("null", nullptr, kF32, one),
            "function: expected one, got null");
  EXPECT_EQ(Define("void", Twice, 0, one),
            "results: expected at least one, got none");
  EXPECT_EQ(Define("token", Twice, XLA_FFI_DataType_TOKEN, one),
            "returns: expected one of C's numbers or void, got another");
  EXPECT_EQ(Define("half", Twice, kF32, {Value(XLA_FFI_DataType_F16)}),
            "parameters: expected dtypes of C's numbers, got another");
  EXPECT_EQ(Define("status", Twice, kF32, one, true),
            "returns: expected an integer as status, got another type");
  EXPECT_EQ(Define("size", Twice, kF32, {Size(kF32)}),
            "parameters: expected sizes to be integers, got floats");
  EXPECT_EQ(Define("sizes", Twice, kF32, {Row(false, kF32, 32)}),
            "parameters: expected up to 4 sizes of 32, got others");
  EXPECT_EQ(Define("kind", Twice, kF32, {{6, kF32, 0, {}}}),
            "parameters: expected known kinds, got another");
  EXPECT_EQ(Define("many", Twice, kF32, Parameters(9, Value(kF32))),
            "parameters: expected at most 6 integers and pointers and 8 "
            "floats, which registers pass, got more");
  EXPECT_EQ(Define("ints", Twice, kF32, Parameters(7, Value(kS32))),
            "parameters: expected at most 6 integers and pointers and 8 "
            "floats, which registers pass, got more");
}

}  // namespace
}  // namespace xla_ffi_kit::call
