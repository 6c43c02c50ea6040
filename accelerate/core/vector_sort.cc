#include "accelerate/core/vector_sort.h"

#include <cstddef>
#include <cstdint>

// The static entry points: the library target of Highway's sort instantiates
// ten key types in two directions, two minutes of compilation for what is
// needed of it here.
#define VQSORT_ONLY_STATIC 1
// One target per generation that differs for sorting: SSE2, AVX2, AVX-512,
// and AVX-512 as Zen 4 likes it (compress-store is slow there).
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_SPR)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/core/vector_sort.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

// After foreach_target.
#include "hwy/contrib/sort/vqsort-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate {
namespace HWY_NAMESPACE {

void SortU32(uint32_t* keys, size_t n) {
  hwy::HWY_NAMESPACE::VQSortStatic(keys, n, hwy::SortAscending());
}
void SortU64(uint64_t* keys, size_t n) {
  hwy::HWY_NAMESPACE::VQSortStatic(keys, n, hwy::SortAscending());
}
void SortU128(hwy::uint128_t* keys, size_t n) {
  hwy::HWY_NAMESPACE::VQSortStatic(keys, n, hwy::SortAscending());
}

void SelectU32(uint32_t* keys, size_t n, size_t k) {
  hwy::HWY_NAMESPACE::VQSelectStatic(keys, n, k, hwy::SortAscending());
}
void SelectU64(uint64_t* keys, size_t n, size_t k) {
  hwy::HWY_NAMESPACE::VQSelectStatic(keys, n, k, hwy::SortAscending());
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xla_ffi_accelerate {
namespace {

HWY_EXPORT(SortU32);
HWY_EXPORT(SortU64);
HWY_EXPORT(SortU128);
HWY_EXPORT(SelectU32);
HWY_EXPORT(SelectU64);

}  // namespace

void VectorSort(uint32_t* keys, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SortU32)(keys, static_cast<size_t>(n));
}

void VectorSort(uint64_t* keys, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SortU64)(keys, static_cast<size_t>(n));
}

void VectorSort(Pair64* keys, int64_t n) {
  static_assert(sizeof(Pair64) == sizeof(hwy::uint128_t));
  HWY_DYNAMIC_DISPATCH(SortU128)
  (reinterpret_cast<hwy::uint128_t*>(keys), static_cast<size_t>(n));
}

void VectorSelect(uint32_t* keys, int64_t n, int64_t k) {
  HWY_DYNAMIC_DISPATCH(SelectU32)
  (keys, static_cast<size_t>(n), static_cast<size_t>(k));
}

void VectorSelect(uint64_t* keys, int64_t n, int64_t k) {
  HWY_DYNAMIC_DISPATCH(SelectU64)
  (keys, static_cast<size_t>(n), static_cast<size_t>(k));
}

}  // namespace xla_ffi_accelerate
#endif  // HWY_ONCE
