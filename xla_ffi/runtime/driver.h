// The functions of the CUDA driver that a launch needs, found in the process
// when the first kernel is launched: nothing links with the driver, so that the
// library loads where there is none.

#ifndef XLA_FFI_RUNTIME_DRIVER_H_
#define XLA_FFI_RUNTIME_DRIVER_H_

#include <string>

#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit::launch {

// CUresult, and handles of the driver, which are pointers.
using Status = int;
inline constexpr Status kSuccess = 0;
using Context = void*;
using Stream = void*;
using Module = void*;
using Function = void*;

// CUdevice_attribute and CUfunction_attribute, as cuda.h numbers them.
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;
inline constexpr int kMostSharedBytes = 97;
inline constexpr int kFunctionSharedBytes = 1;
inline constexpr int kFunctionDynamicSharedBytes = 8;
// CU_STREAM_CAPTURE_MODE_RELAXED and CU_STREAM_CAPTURE_STATUS_NONE.
inline constexpr int kRelaxed = 2;
inline constexpr int kNotCaptured = 0;

// X(function, its symbol, its parameters); see
// https://docs.nvidia.com/cuda/cuda-driver-api. cuda.h gives the symbols with a
// number the names without one, as their ABI is the one since CUDA 4.
#define XLA_FFI_KIT_DRIVER_FUNCTIONS(X)                                     \
  X(cuGetErrorName, "cuGetErrorName", (Status, const char**))               \
  X(cuGetErrorString, "cuGetErrorString", (Status, const char**))           \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", (Context*))                         \
  X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (Context))                     \
  X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (Context*))                      \
  X(cuCtxGetDevice, "cuCtxGetDevice", (int*))                               \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int*, int, int))         \
  X(cuStreamGetCtx, "cuStreamGetCtx", (Stream, Context*))                   \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (Stream, int*))             \
  X(cuStreamSynchronize, "cuStreamSynchronize", (Stream))                   \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", \
    (int*))                                                                 \
  X(cuModuleLoadData, "cuModuleLoadData", (Module*, const void*))           \
  X(cuModuleUnload, "cuModuleUnload", (Module))                             \
  X(cuModuleGetFunction, "cuModuleGetFunction",                             \
    (Function*, Module, const char*))                                       \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", (int*, int, Function))        \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", (Function, int, int))         \
  X(cuLaunchKernel, "cuLaunchKernel",                                       \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,  \
     unsigned, Stream, void**, void**))

struct Driver {
#define XLA_FFI_KIT_MEMBER(name, symbol, parameters) Status(*name) parameters;
  XLA_FFI_KIT_DRIVER_FUNCTIONS(XLA_FFI_KIT_MEMBER)
#undef XLA_FFI_KIT_MEMBER
  // Null before CUDA 12.
  Status (*cuCtxGetId)(Context, unsigned long long*);  // NOLINT(runtime/int)
};

// The driver, libcuda.so.1, loaded once; an error where there is none.
xla::ffi::ErrorOr<const Driver*> GetDriver();

// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
std::string Describe(const Driver& driver, Status status);

}  // namespace xla_ffi_kit::launch

#endif  // XLA_FFI_RUNTIME_DRIVER_H_
