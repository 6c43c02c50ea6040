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

#ifndef XLA_FFI_TESTING_CALL_FRAME_H_
#define XLA_FFI_TESTING_CALL_FRAME_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/dtype_dispatch.h"

namespace xla_ffi_kit::testing {

// What a handler returned. On success the message is empty.
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

// One call. Buffers are referenced, not copied, and must outlive Run().
class CallFrame {
 public:
  using Dims = std::vector<int64_t>;

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

  // Sets a scalar attribute, or a string one.
  CallFrame& Attr(const std::string& name, double value);
  CallFrame& Attr(const std::string& name, float value);
  CallFrame& Attr(const std::string& name, int64_t value);
  CallFrame& Attr(const std::string& name, const char* value);

  // Threads that the pool of this call claims to have; its tasks really run
  // on threads of their own. Default 1.
  CallFrame& Threads(int64_t threads);

  // Calls the handler in the given stage; returns when it and every task it
  // scheduled are finished.
  Status Run(XLA_FFI_Handler* handler,
             XLA_FFI_ExecutionStage stage = XLA_FFI_ExecutionStage_EXECUTE);

 private:
  struct Buffer {
    XLA_FFI_DataType dtype;
    void* data;
    Dims dims;
  };
  struct Attribute {
    XLA_FFI_AttrType type;
    XLA_FFI_DataType dtype;  // of a scalar
    std::string bytes;       // a scalar's representation, or the string
  };

  static std::vector<XLA_FFI_Buffer> Encode(std::vector<Buffer>& buffers);
  CallFrame& Scalar(const std::string& name, XLA_FFI_DataType dtype,
                    const void* value, size_t size);

  std::vector<Buffer> args_;
  std::vector<Buffer> rets_;
  std::map<std::string, Attribute> attrs_;  // the FFI wants them sorted
  int64_t threads_ = 1;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_CALL_FRAME_H_
