// The operands of rows in the order of their packed keys.

#ifndef ACCELERATE_KERNELS_SORT_SORTED_ROW_H_
#define ACCELERATE_KERNELS_SORT_SORTED_ROW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "accelerate/core/ordered_key.h"
#include "accelerate/core/packed_key.h"
#include "accelerate/core/vector_sort.h"
#include "accelerate/kernels/sort/sort.h"
#include "accelerate/kernels/sort/vector_codes.h"

namespace xla_ffi_accelerate::sort {
namespace sort_internal {

// The keys of a row of one operand.
struct KeyColumn {
  KeyCode code;
  const char* data;
};

// Calls fn(typed data, code) for the column's type.
template <typename Fn>
auto VisitColumn(const KeyColumn& column, const Fn& fn) {
  return std::visit(
      [&](const auto& code) {
        using K = typename std::decay_t<decltype(code)>::Key;
        return fn(reinterpret_cast<const K*>(column.data), code);
      },
      column.code);
}

template <typename Packed, typename Element>
void Gather(const Packed* packed, int64_t n, const void* in, void* out) {
  const auto* from = static_cast<const Element*>(in);
  auto* to = static_cast<Element*>(out);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = from[Packing<Packed>::Index(packed[i])];
  }
}

template <typename Packed>
void GatherBytes(const Packed* packed, int64_t n, int64_t width, const void* in,
                 void* out) {
  switch (width) {
    case 1:
      return Gather<Packed, uint8_t>(packed, n, in, out);
    case 2:
      return Gather<Packed, uint16_t>(packed, n, in, out);
    case 4:
      return Gather<Packed, uint32_t>(packed, n, in, out);
    case 8:
      return Gather<Packed, uint64_t>(packed, n, in, out);
    default:
      return Gather<Packed, Pair64>(packed, n, in, out);
  }
}

// Whether in[i] is i for every i below n.
inline bool IsIota(const uint32_t* in, int64_t n) {
  constexpr int64_t kBlock = 1024;  // others are found out by their first one
  for (int64_t i = 0; i < n; i += kBlock) {
    uint32_t difference = 0;
    for (int64_t j = i; j < std::min(i + kBlock, n); ++j) {
      difference |= in[j] ^ static_cast<uint32_t>(j);
    }
    if (difference != 0) return false;
  }
  return true;
}

// Returns which operands of the row are indices, as argsort passes them; bit i
// stands for operand i. The packed keys contain the sorted indices, so they
// need not be gathered, which is a large part of a sort.
inline uint64_t Iotas(const SortProblem& problem, int64_t row) {
  uint64_t iotas = 0;
  const auto count = static_cast<int64_t>(problem.operands.size());
  for (int64_t i = problem.num_keys; i < std::min<int64_t>(count, 64); ++i) {
    const SortOperand& operand = problem.operands[i];
    if (operand.width != 4) continue;
    const auto* in = static_cast<const uint32_t*>(operand.in);
    if (IsIota(in + row * problem.length, problem.length)) {
      iotas |= uint64_t{1} << i;
    }
  }
  return iotas;
}

template <typename Packed>
void CopyIndices(const Packed* packed, int64_t n, void* out) {
  auto* to = static_cast<uint32_t*>(out);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<uint32_t>(Packing<Packed>::Index(packed[i]));
  }
}

// The only key of a row, in sorted order: read off the codes, except keys that
// are equal and have different bits.
template <typename Packed>
void WriteKeys(const KeyColumn& column, const Packed* packed, int64_t n,
               void* out) {
  VisitColumn(column, [&](const auto* in, const auto& code) {
    using Code = std::decay_t<decltype(code)>;
    auto* to = static_cast<typename Code::Key*>(out);
    UnpackKeys(code, packed, n, to);
    if constexpr (Code::kHasTies) {
      for (const uint64_t tied : {code.ZeroCode(), code.NanCode()}) {
        const Packed* tie = std::lower_bound(
            packed, packed + n, tied, [](const Packed& a, uint64_t bound) {
              return Packing<Packed>::Code(a) < bound;
            });
        for (; tie < packed + n && Packing<Packed>::Code(*tie) == tied; ++tie) {
          to[tie - packed] = in[Packing<Packed>::Index(*tie)];
        }
      }
    }
  });
}

// Writes the elements [begin, end) of every operand from the row `row` on, in
// the order of their packed keys. What is not gathered by its index has to be
// of one row: the only key, null if it is gathered, and the iotas.
template <typename Packed>
void WriteRows(const SortProblem& problem, const KeyColumn* only_key,
               uint64_t iotas, const Packed* packed, int64_t row, int64_t begin,
               int64_t end) {
  const int64_t n = end - begin;
  packed += begin;
  for (size_t i = 0; i < problem.operands.size(); ++i) {
    const SortOperand& operand = problem.operands[i];
    const int64_t row_bytes = row * problem.length * operand.width;
    const void* in = static_cast<const char*>(operand.in) + row_bytes;
    void* out =
        static_cast<char*>(operand.out) + row_bytes + begin * operand.width;
    if (i == 0 && only_key != nullptr) {
      WriteKeys(*only_key, packed, n, out);
    } else if (i < 64 && (iotas >> i) % 2 != 0) {
      CopyIndices(packed, n, out);
    } else {
      GatherBytes(packed, n, operand.width, in, out);
    }
    if (operand.is_bf16) {
      QuietBF16Nans(static_cast<uint16_t*>(out), n);
    }
  }
}

}  // namespace sort_internal
}  // namespace xla_ffi_accelerate::sort

#endif  // ACCELERATE_KERNELS_SORT_SORTED_ROW_H_
