#include "xla_ffi/testing/call_frame.h"

#include <atomic>
#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>  // NOLINT
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

// Uses one of everything that a call frame carries.
ffi::Error Everything(ffi::ThreadPool pool, ffi::BufferR2<ffi::F32> x,
                      ffi::Result<ffi::Buffer<ffi::S32>> y, double d, float f,
                      int64_t i, std::string_view s) {
  if (d != 0.5 || f != 1.5f || i != -7) return ffi::Error::Internal("number");
  if (s != "text") return ffi::Error(ffi::ErrorCode::kNotFound, "string");
  if (x.dimensions()[1] != 3) return ffi::Error::Internal("dimension");
  static std::atomic<int> ran;
  ran = 0;
  for (int task = 0; task < pool.num_threads(); ++task) {
    pool.Schedule([] { ++ran; });
  }
  while (ran < pool.num_threads()) {
  }
  y->typed_data()[0] = static_cast<int32_t>(x.typed_data()[5]);
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kEverything, Everything,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::BufferR2<ffi::F32>>()  // x
                           .Ret<ffi::Buffer<ffi::S32>>()    // y
                           .Attr<double>("z")               // names that are
                           .Attr<float>("a")                // not sorted
                           .Attr<int64_t>("m")
                           .Attr<std::string_view>("b"),
                       {ffi::Traits::kCmdBufferCompatible});

class EverythingTest : public ::testing::Test {
 protected:
  CallFrame Frame(const char* text) {
    return CallFrame()
        .Arg(x_, {2, 3})
        .Ret(y_, {})
        .Attr("z", 0.5)
        .Attr("a", 1.5f)
        .Attr("m", int64_t{-7})
        .Attr("b", text)
        .Threads(3);
  }

  std::vector<float> x_ = {0, 1, 2, 3, 4, 5};
  std::vector<int32_t> y_ = {0};
};

TEST_F(EverythingTest, CarriesEverything) {
  const Status status = Frame("text").Run(kEverything);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(status.message, "");
  EXPECT_EQ(y_[0], 5);
}

TEST_F(EverythingTest, ReadsCodeAndMessageBack) {
  const Status status = Frame("other").Run(kEverything);
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_NOT_FOUND);
  EXPECT_EQ(status.message, "string");
}

TEST_F(EverythingTest, ShowsXlasDecodingErrors) {
  EXPECT_EQ(CallFrame().Run(kEverything).message,
            "[execute] Wrong number of arguments: expected 1 but got 0");
  EXPECT_EQ(Frame("text").Attr("z", 0.5f).Run(kEverything).message,
            "[execute] Failed to decode all FFI handler operands (bad operands "
            "at: 3)\nDiagnostics:\nWrong scalar data type: expected F64 but "
            "got F32");
  EXPECT_EQ(
      Frame("text").Run(kEverything, XLA_FFI_ExecutionStage_PREPARE).message,
      "Wrong execution stage: expected `execute` but got `prepare`");
}

TEST_F(EverythingTest, ReadsMetadata) {
  const Metadata metadata = GetMetadata(kEverything);
  EXPECT_TRUE(metadata.status.ok());
  EXPECT_EQ(metadata.major_version, XLA_FFI_API_MAJOR);
  EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
  EXPECT_EQ(metadata.traits, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
  EXPECT_EQ(metadata.state_type_id, 0);
}

using Reals = ffi::Buffer<ffi::F32>;

constexpr auto kInstantiate = XLA_FFI_ExecutionStage_INSTANTIATE;

// Calls `handler` with nothing but what `frame` has, and expects `message`.
void ExpectMessage(CallFrame frame, XLA_FFI_Handler* handler,
                   const std::string& message) {
  EXPECT_EQ(frame.Run(handler).message, message);
}

// --- Attributes --------------------------------------------------------------

template <typename T>
bool Holds(const ffi::Dictionary& attributes, std::string_view name, T value) {
  const auto held = attributes.get<T>(name);
  return held.has_value() && *held == value;
}

ffi::Error ReadAttributes(ffi::Dictionary all) {
  const auto array = all.get<ffi::Span<const int16_t>>("array");
  const auto none = all.get<ffi::Span<const float>>("none");
  const auto outer = all.get<ffi::Dictionary>("outer");
  const auto pointer = all.get<int64_t>("pointer");
  if (!array || !none || !outer || !pointer) {
    return ffi::Error::Internal("missing");
  }
  const auto inner = outer->get<ffi::Dictionary>("inner");
  const bool right =
      Holds(all, "bool", true) && Holds(all, "u8", uint8_t{200}) &&
      Holds(all, "u64", ~uint64_t{0}) &&
      Holds(all, "c128", std::complex<double>(1, -2)) &&
      Holds(all, "text", std::string_view("a b", 3)) && array->size() == 2 &&
      (*array)[1] == -5 && none->size() == 0 &&
      *reinterpret_cast<int*>(*pointer) == 7 && inner &&
      Holds(*inner, "deep", 0.25) && Holds(*outer, "text", std::string_view());
  return right ? ffi::Error::Success() : ffi::Error::Internal("wrong");
}
XLA_FFI_DEFINE_HANDLER(kReadAttributes, ReadAttributes,
                       ffi::Ffi::Bind().Attrs());

TEST(CallFrameTest, AttributesOfEveryKind) {
  int seven = 7;
  CallFrame frame =
      CallFrame()
          .Attr("bool", true)
          .Attr("u8", uint8_t{200})
          .Attr("u64", ~uint64_t{0})
          .Attr("c128", std::complex<double>(1, -2))
          .Attr("text", std::string("a b"))
          .Attr("array", std::vector<int16_t>{4, -5})
          .Attr("none", std::vector<float>())
          .Attr("outer", Attributes()
                             .Set("inner", Attributes().Set("deep", 0.25))
                             .Set("text", ""))
          .PointerAttr("pointer", &seven);
  ExpectMessage(frame, kReadAttributes, "");
  frame.Attr("bool", false);
  ExpectMessage(frame, kReadAttributes, "wrong");
  frame.attributes().Remove("array");
  ExpectMessage(frame, kReadAttributes, "missing");
}

// --- Context -----------------------------------------------------------------

ffi::Error ReadIds(ffi::RunId run, int32_t ordinal, void* stream) {
  if (run.run_id != 42 || ordinal != 3) return ffi::Error::Internal("ids");
  *static_cast<int*>(stream) += 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kReadIds, ReadIds,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .Ctx<ffi::PlatformStream<void*>>());

TEST(CallFrameTest, RunIdDeviceOrdinalAndStream) {
  int launches = 0;
  CallFrame frame = CallFrame().RunId(42).DeviceOrdinal(3).Stream(&launches);
  ExpectMessage(frame, kReadIds, "");
  EXPECT_EQ(launches, 1);
  ExpectMessage(frame.RunId(43), kReadIds, "ids");
}

ffi::Error UseScratch(ffi::ScratchAllocator scratch, int64_t size) {
  const std::optional<void*> first = scratch.Allocate(size, 16);
  const std::optional<void*> second = scratch.Allocate(size);
  if (!first || !second) return ffi::Error::Internal("out of scratch");
  if (scratch.Allocate(0, 32)) return ffi::Error::Internal("alignment 32");
  if (reinterpret_cast<uintptr_t>(*first) % 16 != 0) {
    return ffi::Error::Internal("alignment");
  }
  static_cast<char*>(*first)[size - 1] = static_cast<char*>(*second)[0] = 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(
    kUseScratch, UseScratch,
    ffi::Ffi::Bind().Ctx<ffi::ScratchAllocator>().Attr<int64_t>("size"));

TEST(CallFrameTest, ScratchMemoryHasALimit) {
  CallFrame frame = CallFrame().Attr("size", int64_t{100});
  ExpectMessage(frame, kUseScratch, "out of scratch");  // there is none
  ExpectMessage(frame.Scratch(199), kUseScratch, "out of scratch");
  ExpectMessage(frame.Scratch(200), kUseScratch, "");
}

ffi::Error NestedTasks(ffi::ThreadPool pool, ffi::Result<Reals> y) {
  auto count = std::make_shared<std::atomic<int>>(0);
  pool.Schedule([pool, count]() mutable {
    ++*count;
    pool.Schedule([count] { ++*count; });
  });
  while (*count < 2) std::this_thread::yield();
  y->typed_data()[0] = static_cast<float>(pool.num_threads());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kNestedTasks, NestedTasks,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Ret<Reals>());

TEST(CallFrameTest, TasksScheduleTasks) {
  std::vector<float> y(1);
  ExpectMessage(CallFrame().Ret(y, {}).Threads(5), kNestedTasks, "");
  EXPECT_EQ(y[0], 5);
}

TEST(CallFrameTest, WithoutAPoolTheCallerRunsTheTasks) {
  std::vector<float> y(1, -1);
  ExpectMessage(CallFrame().Ret(y, {}).Threads(0), kNestedTasks, "");
  EXPECT_EQ(y[0], 0);
}

// --- State and user data -----------------------------------------------------

struct Counted {
  static ffi::TypeId id;
  static int live;

  Counted() { ++live; }
  ~Counted() { --live; }
  int runs = 0;
};
ffi::TypeId Counted::id = {};
int Counted::live = 0;

struct Other {
  static ffi::TypeId id;
};
ffi::TypeId Other::id = {};

XLA_FFI_DEFINE_HANDLER(
    kMakeCounted,
    [](int64_t fail) -> ffi::ErrorOr<std::unique_ptr<Counted>> {
      if (fail) return ffi::Unexpected(ffi::Error::Internal("asked to fail"));
      return std::make_unique<Counted>();
    },
    ffi::Ffi::BindInstantiate().Attr<int64_t>("fail"));
XLA_FFI_DEFINE_HANDLER(
    kCountRun,
    [](Counted* state, ffi::Result<Reals> y) {
      y->typed_data()[0] = static_cast<float>(++state->runs);
      return ffi::Error::Success();
    },
    ffi::Ffi::Bind().Ctx<ffi::State<Counted>>().Ret<Reals>());
XLA_FFI_DEFINE_HANDLER(
    kReadOther, [](Other*) { return ffi::Error::Success(); },
    ffi::Ffi::Bind().Ctx<ffi::State<Other>>());
XLA_FFI_DEFINE_HANDLER(
    kReadUserData,
    [](Counted* data, Other*) {
      ++data->runs;
      return ffi::Error::Success();
    },
    ffi::Ffi::Bind().Ctx<ffi::UserData<Counted>>().Ctx<ffi::UserData<Other>>());

class StateTest : public ::testing::Test {
 protected:
  StateTest() {
    EXPECT_EQ(RegisterType<Counted>("test.counted").message, "");
    EXPECT_EQ(RegisterType<Other>("test.other").message, "");
  }

  static CallFrame Make(HandlerState& state, int64_t fail = 0) {
    return CallFrame().State(state).Attr("fail", fail);
  }

  std::vector<float> y_ = {0};
};

TEST_F(StateTest, LivesFromInstantiateUntilItsOwnerGoes) {
  {
    HandlerState state, another;
    ASSERT_TRUE(Make(state).Run(kMakeCounted, kInstantiate).ok());
    ASSERT_TRUE(Make(another).Run(kMakeCounted, kInstantiate).ok());
    EXPECT_EQ(Counted::live, 2);
    for (int run = 1; run <= 3; ++run) {
      ExpectMessage(CallFrame().State(state).Ret(y_, {}), kCountRun, "");
      EXPECT_EQ(y_[0], run);
    }
    ExpectMessage(CallFrame().State(another).Ret(y_, {}), kCountRun, "");
    EXPECT_EQ(y_[0], 1);
    EXPECT_EQ(Make(state).Run(kMakeCounted, kInstantiate).message,
              "State is already set");
    EXPECT_EQ(Counted::live, 2);
  }
  EXPECT_EQ(Counted::live, 0);
}

TEST_F(StateTest, ErrorsAreXlas) {
  HandlerState state;
  EXPECT_EQ(Make(state, 1).Run(kMakeCounted, kInstantiate).message,
            "asked to fail");
  EXPECT_TRUE(state.empty());
  const std::string failed =
      "[execute] Failed to decode all FFI handler operands (bad operands at: "
      "0)\nDiagnostics:\nFailed to get state from execution context: ";
  ExpectMessage(CallFrame().State(state).Ret(y_, {}), kCountRun,
                failed + "State is not set");
  ASSERT_TRUE(Make(state).Run(kMakeCounted, kInstantiate).ok());
  ExpectMessage(
      CallFrame().State(state), kReadOther,
      failed + "Set state has type id " + std::to_string(Counted::id.type_id) +
          ", which is not the requested " + std::to_string(Other::id.type_id));
  EXPECT_EQ(Make(state).Run(kMakeCounted).message,
            "Wrong execution stage: expected `instantiate` but got `execute`");
}

TEST_F(StateTest, UserDataByType) {
  Counted data;
  Other other;
  ExpectMessage(CallFrame().UserData(&data).UserData(&other), kReadUserData,
                "");
  EXPECT_EQ(data.runs, 1);
  EXPECT_EQ(CallFrame().UserData(&data).Run(kReadUserData).code,
            XLA_FFI_Error_Code_INVALID_ARGUMENT);
}

TEST_F(StateTest, MetadataNamesTheStateType) {
  EXPECT_EQ(GetMetadata(kMakeCounted).state_type_id, Counted::id.type_id);
  EXPECT_EQ(GetMetadata(kCountRun).state_type_id, 0);
}

TEST_F(StateTest, ATypeNameIsTakenOnce) {
  EXPECT_TRUE(RegisterType<Counted>("test.counted").ok());
  const int64_t id = Other::id.type_id;
  EXPECT_EQ(RegisterType<Other>("test.counted").code,
            XLA_FFI_Error_Code_ALREADY_EXISTS);
  EXPECT_EQ(Other::id.type_id, id);
}

// --- Futures and exceptions --------------------------------------------------

XLA_FFI_DEFINE_HANDLER(
    kLater,
    [](ffi::ThreadPool pool, ffi::Result<Reals> y, int64_t fail) {
      ffi::Promise promise;
      ffi::Future future(promise);
      float* out = y->typed_data();
      pool.Schedule([promise, out, fail]() mutable {
        std::this_thread::yield();
        *out = 5;
        if (fail) {
          promise.SetError(ffi::Error(ffi::ErrorCode::kDataLoss, "too late"));
        } else {
          promise.SetAvailable();
        }
      });
      return future;
    },
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Ret<Reals>().Attr<int64_t>("fail"));

TEST(CallFrameTest, WaitsForFutures) {
  std::vector<float> y(1);
  ExpectMessage(CallFrame().Ret(y, {}).Attr("fail", int64_t{0}), kLater, "");
  EXPECT_EQ(y[0], 5);
  const Status status =
      CallFrame().Ret(y, {}).Attr("fail", int64_t{1}).Run(kLater);
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_DATA_LOSS);
  EXPECT_EQ(status.message, "too late");
}

XLA_FFI_DEFINE_HANDLER(
    kThrow,
    []() -> ffi::Error { throw std::runtime_error("thrown by a handler"); },
    ffi::Ffi::Bind());

TEST(CallFrameTest, AnExceptionIsAnError) {
  const Status status = CallFrame().Run(kThrow);
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_UNKNOWN);
  EXPECT_EQ(status.message, "XLA FFI call failed: thrown by a handler");
}

}  // namespace
}  // namespace xla_ffi_kit::testing
