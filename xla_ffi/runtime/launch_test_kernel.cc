// A kernel for launch_test, as the fake driver calls one.

#include <cstdint>

#include "xla_ffi/runtime/launch.h"

using xla_ffi_kit::launch::Array;

// y[i] = factor x[i], and what the launch says about the arrays in z.
extern "C" void Scale_emulated(void** parameters) {
  const auto& x = *static_cast<const Array*>(parameters[0]);
  const float factor = *static_cast<const float*>(parameters[1]);
  const auto& y = *static_cast<const Array*>(parameters[2]);
  const auto& z = *static_cast<const Array*>(parameters[3]);
  const int64_t items = *static_cast<const int64_t*>(parameters[4]);
  for (int64_t i = 0; i < x.size; ++i) {
    static_cast<float*>(y.data)[i] = factor * static_cast<float*>(x.data)[i];
  }
  auto* note = static_cast<int64_t*>(z.data);
  *note++ = items;
  *note++ = x.size_per_item;
  *note++ = x.rank;
  for (const int64_t size : x.dims) *note++ = size;
}
