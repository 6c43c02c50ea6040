#include <hip/hip_runtime.h>

#include "rocm/kernel.h"

extern "C" int MistakesArchitectures() { return STAND_IN_ARCHITECTURES; }
