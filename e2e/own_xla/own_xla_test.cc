// The kit's handlers, compiled with and linked to the codebase's own XLA.

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/registry/registry.h"

#ifndef XLA_OF_THE_CODEBASE
#error "these are not the headers of the codebase's own XLA"
#endif

int main() { return XlaFfiKit_CpuHandlerTable()->num_handlers > 0 ? 0 : 1; }
