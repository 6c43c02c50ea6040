// The loop over elements of `xla_ffi_kit.elementwise`: 16 bytes of each array
// for each thread.

#ifndef XLA_FFI_STRINGS_CUDA_ELEMENTS_H_
#define XLA_FFI_STRINGS_CUDA_ELEMENTS_H_

#include "xla_ffi/strings/cuda/array.h"
#include "xla_ffi/strings/cuda/pack.h"
#include "xla_ffi/strings/cuda/standard.h"

namespace kit {

// Calls function(in, out) with an element of each operand and a place for one
// of each result, for the elements of this thread.
template <typename T, int kIns, int kOuts, typename Function>
void ForElements(int64_t size, const T* const (&ins)[kIns],
                 T* const (&outs)[kOuts], const Function& function) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t begin = thread * kSize;
  uintptr_t addresses = 0;
  for (const T* in : ins) addresses |= reinterpret_cast<uintptr_t>(in);
  for (T* out : outs) addresses |= reinterpret_cast<uintptr_t>(out);
  if (begin + kSize > size || addresses % 16 != 0) {
    for (int64_t i = begin; i < begin + kSize && i < size; ++i) {
      T in[kIns], out[kOuts];
      for (int a = 0; a < kIns; ++a) in[a] = ins[a][i];
      function(in, out);
      for (int a = 0; a < kOuts; ++a) outs[a][i] = out[a];
    }
    return;
  }
  Pack<T> read[kIns], written[kOuts];
#pragma unroll
  for (int a = 0; a < kIns; ++a) read[a] = Pack<T>::Load(ins[a] + begin);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    T in[kIns], out[kOuts];
#pragma unroll
    for (int a = 0; a < kIns; ++a) in[a] = read[a].Get(i);
    function(in, out);
#pragma unroll
    for (int a = 0; a < kOuts; ++a) written[a].Set(i, out[a]);
  }
#pragma unroll
  for (int a = 0; a < kOuts; ++a) written[a].Store(outs[a] + begin);
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_CUDA_ELEMENTS_H_
