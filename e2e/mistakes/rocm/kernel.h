#ifndef MISTAKES_ROCM_KERNEL_H_
#define MISTAKES_ROCM_KERNEL_H_

// Both are compiled by hipcc.
extern "C" int MistakesArchitectures();

#endif  // MISTAKES_ROCM_KERNEL_H_
