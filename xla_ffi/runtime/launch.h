// Launches kernels that programs carry as attributes of a custom call: what
// xla_ffi_kit makes of CUDA in strings.

#ifndef XLA_FFI_RUNTIME_LAUNCH_H_
#define XLA_FFI_RUNTIME_LAUNCH_H_

#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime/driver.h"

namespace xla_ffi_kit::launch {

// A kernel, as a custom call describes it. It contains no address, so that the
// program can be written to a file.
struct Kernel {
  std::string_view name;    // the operation's, for errors
  std::string_view symbol;  // of the kernel in its module
  std::string_view digest;  // of `code`: what the module is found by
  std::string_view code;    // see images.h

  // Blocks in x, y and z; those in x are computed if there are `items`.
  xla::ffi::Span<const int64_t> grid;
  xla::ffi::Span<const int64_t> block;  // threads in x, y and z
  int64_t shared;                       // bytes of dynamic shared memory

  // Empty, or the items that the blocks divide among themselves: the index of a
  // buffer, how many of its trailing axes make an item, and the items of each
  // block. Without items nothing is launched.
  xla::ffi::Span<const int64_t> items;

  // The kernel's parameters in order: the index of a buffer, operands before
  // results, whose Array is passed; kNumberOfItems, an int64_t; or
  // kFirstConstant minus an offset in bytes into `constants`.
  xla::ffi::Span<const int64_t> parameters;
  xla::ffi::Span<const int64_t> constants;
};

inline constexpr int64_t kNumberOfItems = -1;
inline constexpr int64_t kFirstConstant = -2;
inline constexpr int64_t kMostAxes = 8;

// An operand or result, as a kernel gets it by value: kit::In<T>, kit::Out<T>
// of xla_ffi/strings/cuda/array.h.
struct Array {
  void* data;
  int64_t size;           // elements
  int64_t size_per_item;  // of them for each of the items
  int64_t rank;
  // If there are more axes, the first ones count as one.
  int64_t dims[kMostAxes];
};

// Loads the kernel's module into the context of `stream`, or else the current
// one, unless it is there. XLA calls that before it captures a graph, which
// loading could not be part of. Errors name the operation: FAILED_PRECONDITION
// without a driver or code for this GPU, INVALID_ARGUMENT for a Kernel that no
// launch can have, INTERNAL for an error of the driver.
xla::ffi::Error Load(Stream stream, const Kernel& kernel);

// Launches the kernel on `stream`, with the same errors.
xla::ffi::Error Launch(Stream stream, xla::ffi::RemainingArgs operands,
                       xla::ffi::RemainingRets results, const Kernel& kernel);

}  // namespace xla_ffi_kit::launch

// The attributes of a call are the members of a Kernel, in their order.
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(
    xla_ffi_kit::launch::Kernel, StructMember<std::string_view>("name"),
    StructMember<std::string_view>("symbol"),
    StructMember<std::string_view>("digest"),
    StructMember<std::string_view>("code"),
    StructMember<Span<const int64_t>>("grid"),
    StructMember<Span<const int64_t>>("block"), StructMember<int64_t>("shared"),
    StructMember<Span<const int64_t>>("items"),
    StructMember<Span<const int64_t>>("parameters"),
    StructMember<Span<const int64_t>>("constants"));

#endif  // XLA_FFI_RUNTIME_LAUNCH_H_
