// Runs an FFI handler in a plain C++ test, without XLA.
//
// The call frame that XLA would build is built here, against the FFI's C
// headers alone:
//
//   std::vector<float> x = {3, 4}, y(2);
//   Status status = CallFrame()
//                       .Arg<float>(x, {1, 2})
//                       .Ret<float>(y, {1, 2})
//                       .Attr("eps", 1e-6)
//                       .Run(XlaFfiKitRmsNormCpu);
//   EXPECT_EQ(status.message, "");
//
// A handler with state runs in two stages, and XLA keeps the state between:
//
//   RegisterType<Counter>("test.counter");
//   HandlerState state;
//   CallFrame().State(state).Run(kMake, XLA_FFI_ExecutionStage_INSTANTIATE);
//   CallFrame().State(state).Ret(y, {}).Run(kCount);

#ifndef XLA_FFI_TESTING_CALL_FRAME_H_
#define XLA_FFI_TESTING_CALL_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/testing/fake_api.h"

namespace xla_ffi_kit::testing {

// The result of a handler. On success the message is empty.
struct Status {
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_OK;
  std::string message;

  bool ok() const { return code == XLA_FFI_Error_Code_OK; }
};

// A handler's answer to a metadata call.
struct Metadata {
  Status status;
  int major_version = -1;
  int minor_version = -1;
  XLA_FFI_Handler_Traits traits = 0;
  int64_t state_type_id = 0;
};

Metadata GetMetadata(XLA_FFI_Handler* handler);

// Registers a type, `info` null for one that nobody deletes, as XLA does:
// again is no error, and another type of the name is.
Status RegisterType(const std::string& name, XLA_FFI_TypeId* id,
                    const XLA_FFI_TypeInfo* info);

template <typename T>
Status RegisterType(const std::string& name) {
  static constexpr XLA_FFI_TypeInfo info = xla::ffi::MakeTypeInfo<T>();
  return RegisterType(name, &T::id, &info);
}

// The attributes of a call: scalars, strings, arrays, pointers, and
// dictionaries in dictionaries.
class Attributes {
 public:
  // Each replaces the attribute of that name, if there is one, and returns
  // *this. A scalar has the dtype of its C++ type: double is f64, int64_t s64,
  // bool pred.
  template <typename T, typename = std::enable_if_t<
                            !std::is_convertible_v<T, std::string_view>>>
  Attributes& Set(const std::string& name, T value) {
    return Set(name, XLA_FFI_AttrType_SCALAR,
               static_cast<XLA_FFI_DataType>(kDtypeOf<T>), &value,
               sizeof(value), 1);
  }
  template <typename T>
  Attributes& Set(const std::string& name, const std::vector<T>& values) {
    return Set(name, XLA_FFI_AttrType_ARRAY,
               static_cast<XLA_FFI_DataType>(kDtypeOf<T>), values.data(),
               values.size() * sizeof(T), values.size());
  }
  Attributes& Set(const std::string& name, std::string_view text) {
    return Set(name, XLA_FFI_AttrType_STRING, XLA_FFI_DataType_INVALID,
               text.data(), text.size(), text.size());
  }
  Attributes& Set(const std::string& name, const char* text) {
    return Set(name, std::string_view(text));
  }
  Attributes& Set(const std::string& name, Attributes dictionary);
  // A pointer travels as an s64 scalar.
  Attributes& SetPointer(const std::string& name, const void* pointer) {
    return Set(name, static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer)));
  }

  Attributes& Remove(const std::string& name);
  std::vector<std::string> names() const;          // in order
  int64_t Integer(const std::string& name) const;  // the value of an s64

 private:
  friend class EncodedAttributes;

  struct Value {
    XLA_FFI_AttrType type;
    XLA_FFI_DataType dtype;  // of a scalar or an array
    std::string bytes;       // scalar, array or string
    size_t size;             // elements of an array
    std::shared_ptr<const Attributes> dictionary;
  };

  Attributes& Set(const std::string& name, XLA_FFI_AttrType type,
                  XLA_FFI_DataType dtype, const void* bytes, size_t size_bytes,
                  size_t size);

  std::map<std::string, Value> values_;  // the FFI wants them sorted
};

// One call. Buffers, state and user data are referenced, not copied, and must
// outlive Run(). You may copy it, change it and run it again.
class CallFrame {
 public:
  using Dims = std::vector<int64_t>;

  struct Buffer {
    XLA_FFI_DataType dtype;
    void* data;
    Dims dims;
  };

  // Adds an operand or a result: `data` may be null, and need not fit `dims`.
  CallFrame& Arg(XLA_FFI_DataType dtype, void* data, Dims dims);
  CallFrame& Ret(XLA_FFI_DataType dtype, void* data, Dims dims);

  template <typename T>
  CallFrame& Arg(std::vector<T>& data, Dims dims) {
    return Arg(static_cast<XLA_FFI_DataType>(kDtypeOf<T>), data.data(),
               std::move(dims));
  }
  template <typename T>
  CallFrame& Ret(std::vector<T>& data, Dims dims) {
    return Ret(static_cast<XLA_FFI_DataType>(kDtypeOf<T>), data.data(),
               std::move(dims));
  }

  // Sets an attribute: a number, a string, a vector of numbers, a dictionary
  // (Attributes).
  template <typename T>
  CallFrame& Attr(const std::string& name, T value) {
    attributes_.Set(name, std::move(value));
    return *this;
  }
  CallFrame& PointerAttr(const std::string& name, const void* pointer) {
    attributes_.SetPointer(name, pointer);
    return *this;
  }

  // Threads that the pool of this call claims to have; its tasks really run
  // on threads of their own. Default 1. With 0 there is no pool, as on a GPU.
  CallFrame& Threads(int64_t threads) {
    return Set(context_.num_threads, threads);
  }
  // The value of PlatformStream. The default is null, CUDA's default stream.
  CallFrame& Stream(void* stream) { return Set(context_.stream, stream); }
  // Bytes (of host memory) that ScratchAllocator can give out at a time. By
  // default it gives none, as on a CPU.
  CallFrame& Scratch(size_t bytes) {
    context_.scratch_bytes = bytes;
    return *this;
  }
  CallFrame& RunId(int64_t id) { return Set(context_.run_id, id); }
  CallFrame& DeviceOrdinal(int32_t ordinal) {
    return Set(context_.device_ordinal, ordinal);
  }
  CallFrame& State(HandlerState& state) { return Set(context_.state, &state); }

  // `data` is what UserData<T> gives; T is registered.
  template <typename T>
  CallFrame& UserData(T* data) {
    context_.user_data[T::id.type_id] = data;
    return *this;
  }

  // The buffers that have been added so far, which tests may change.
  std::vector<Buffer>& args() { return args_; }
  std::vector<Buffer>& rets() { return rets_; }
  Attributes& attributes() { return attributes_; }

  // Calls the handler in the given stage; returns when it, every task it
  // scheduled and the future it returned are finished. An exception is an
  // error, as in XLA.
  Status Run(XLA_FFI_Handler* handler,
             XLA_FFI_ExecutionStage stage = XLA_FFI_ExecutionStage_EXECUTE);

 private:
  template <typename T>
  CallFrame& Set(T& member, T value) {
    member = value;
    return *this;
  }

  std::vector<Buffer> args_;
  std::vector<Buffer> rets_;
  Attributes attributes_;
  ContextValues context_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_CALL_FRAME_H_
