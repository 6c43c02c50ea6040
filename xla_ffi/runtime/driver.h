// The functions of the CUDA driver that a launch needs, found in the process
// when the first kernel is launched: nothing links with the driver, so that the
// library loads where there is none.

#ifndef XLA_FFI_RUNTIME_DRIVER_H_
#define XLA_FFI_RUNTIME_DRIVER_H_

#include <cstddef>

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

// https://docs.nvidia.com/cuda/cuda-driver-api
struct Driver {
  Status (*cuGetErrorName)(Status, const char**);
  Status (*cuGetErrorString)(Status, const char**);
  Status (*cuCtxGetCurrent)(Context*);
  Status (*cuCtxPushCurrent)(Context);
  Status (*cuCtxPopCurrent)(Context*);
  Status (*cuCtxGetDevice)(int*);
  Status (*cuDeviceGetAttribute)(int*, int, int);
  Status (*cuStreamGetCtx)(Stream, Context*);
  Status (*cuStreamIsCapturing)(Stream, int*);
  Status (*cuStreamSynchronize)(Stream);
  Status (*cuThreadExchangeStreamCaptureMode)(int*);
  Status (*cuModuleLoadData)(Module*, const void*);
  Status (*cuModuleUnload)(Module);
  Status (*cuModuleGetFunction)(Function*, Module, const char*);
  Status (*cuFuncGetAttribute)(int*, int, Function);
  Status (*cuFuncSetAttribute)(Function, int, int);
  Status (*cuLaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned,
                           unsigned, unsigned, unsigned, Stream, void**,
                           void**);
  // Null before CUDA 12.
  Status (*cuCtxGetId)(Context, unsigned long long*);  // NOLINT(runtime/int)
};

// The driver, libcuda.so.1, loaded once; an error where there is none.
xla::ffi::ErrorOr<const Driver*> GetDriver();

// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
std::string Describe(const Driver& driver, Status status);

}  // namespace xla_ffi_kit::launch

#endif  // XLA_FFI_RUNTIME_DRIVER_H_
