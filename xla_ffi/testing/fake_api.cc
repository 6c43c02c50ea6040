#include "xla_ffi/testing/fake_api.h"

#include "xla/ffi/api/c_api.h"

namespace xla_ffi_kit::testing {
namespace {

XLA_FFI_Error* MakeError(XLA_FFI_Error_Code code, const char* message) {
  return reinterpret_cast<XLA_FFI_Error*>(new FakeError{code, message});
}

FakeError* AsFake(XLA_FFI_Error* error) {
  return reinterpret_cast<FakeError*>(error);
}

FakeContext* AsFake(XLA_FFI_ExecutionContext* context) {
  return reinterpret_cast<FakeContext*>(context);
}

// Stands for every function that takes Args and that this fake lacks.
template <typename Args>
XLA_FFI_Error* Unimplemented(Args*) {
  return MakeError(XLA_FFI_Error_Code_UNIMPLEMENTED,
                   "not available in a test call frame");
}

XLA_FFI_Api MakeApi() {
  XLA_FFI_Api api = {};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr,
                     XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
  api.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* args) {
    return MakeError(args->errc, args->message);
  };
  api.XLA_FFI_Error_GetMessage = [](XLA_FFI_Error_GetMessage_Args* args) {
    args->message = AsFake(args->error)->message.c_str();
  };
  api.XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* args) {
    delete AsFake(args->error);
  };
  api.XLA_FFI_ThreadPool_Schedule =
      [](XLA_FFI_ThreadPool_Schedule_Args* args) -> XLA_FFI_Error* {
    AsFake(args->ctx)->tasks.emplace_back(args->task, args->data);
    return nullptr;
  };
  api.XLA_FFI_ThreadPool_NumThreads =
      [](XLA_FFI_ThreadPool_NumThreads_Args* args) -> XLA_FFI_Error* {
    *args->num_threads = AsFake(args->ctx)->num_threads;
    return nullptr;
  };
  // CUDA's default stream: what a handler needs to get as far as its checks.
  api.XLA_FFI_Stream_Get = [](XLA_FFI_Stream_Get_Args* args) -> XLA_FFI_Error* {
    args->stream = nullptr;
    return nullptr;
  };
  api.XLA_FFI_Handler_Register = Unimplemented;
  api.XLA_FFI_Type_Register = Unimplemented;
  api.XLA_FFI_ExecutionContext_Get = Unimplemented;
  api.XLA_FFI_State_Set = Unimplemented;
  api.XLA_FFI_State_Get = Unimplemented;
  api.XLA_FFI_DeviceMemory_Allocate = Unimplemented;
  api.XLA_FFI_DeviceMemory_Free = Unimplemented;
  api.XLA_FFI_Future_Create = Unimplemented;
  api.XLA_FFI_Future_SetAvailable = Unimplemented;
  api.XLA_FFI_Future_SetError = Unimplemented;
  api.XLA_FFI_RunId_Get = Unimplemented;
  api.XLA_FFI_DeviceOrdinal_Get = Unimplemented;
  return api;
}

}  // namespace

const XLA_FFI_Api* FakeApi() {
  static const XLA_FFI_Api api = MakeApi();
  return &api;
}

}  // namespace xla_ffi_kit::testing
