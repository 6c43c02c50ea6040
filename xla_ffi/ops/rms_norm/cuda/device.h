// What a thread of a kernel does with vectors of a row, and what threads do
// together: sums over those of a row, and copies to shared memory that go on
// while they work.

#ifndef XLA_FFI_OPS_RMS_NORM_CUDA_DEVICE_H_
#define XLA_FFI_OPS_RMS_NORM_CUDA_DEVICE_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/cuda/plan.h"

#if defined(__CUDACC__) && !defined(__NVCC__)
#include "cuda_pipeline_primitives.h"  // the emulator's
#endif

#ifdef __CUDACC__

namespace xla_ffi_kit {

// The block's dynamic shared memory. It stands in the emulator's namespace.
__device__ inline PackBits* DynamicShared() {
  extern __shared__ uint4 dynamic[];
  return reinterpret_cast<PackBits*>(dynamic);
}

namespace rms_norm_internal {

// --- Vectorized access and arithmetic ----------------------------------------

// 1 / sqrt(value), rounded to A once, or nearly so.
//
// A division and a square root of doubles are 100 instructions, which short
// rows would feel. For a float result one Newton step from the device's
// approximation does: it squares an error of 2^-22. The branch also keeps what
// follows from being computed ahead, in registers that there are not.
template <typename A>
__device__ inline A ReciprocalSqrt(double value) {
#ifdef __CUDA_ARCH__
  const bool is_float_range = value > 1e-30 && value < 1e30;
  if (std::is_same_v<A, float> && is_float_range) {
    const double guess = rsqrtf(static_cast<float>(value));
    return static_cast<A>(guess * (1.5 - 0.5 * value * guess * guess));
  }
#endif
  return static_cast<A>(1 / sqrt(value));
}

#ifdef __CUDA_ARCH__

// A GPU converts two 16-bit numbers at a time. Code that goes through single
// ones takes twice the instructions, and registers for each half.
template <typename T>
__device__ inline void WidenTwo(uint32_t bits, float* two) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    two[0] = __uint_as_float(bits << 16);
    two[1] = __uint_as_float(bits & 0xffff0000U);
  } else {
    asm("{\n.reg .f16 low, high;\n"
        "mov.b32 {low, high}, %2;\n"
        "cvt.f32.f16 %0, low;\n"
        "cvt.f32.f16 %1, high;\n}"
        : "=f"(two[0]), "=f"(two[1])
        : "r"(bits));
  }
}

template <typename T>
__device__ inline uint32_t RoundTwo(const float* two) {
  uint32_t bits;
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
        : "=r"(bits)
        : "f"(two[1]), "f"(two[0]));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(two[1]), "f"(two[0]));
  }
  return bits;
}

#endif  // __CUDA_ARCH__

// Vectors of W neighboring elements of T: as wide as one load is, or of one
// element where rows are not aligned for that.
template <typename T, int W>
struct Vectors {
  using Element = T;
  using A = AccumulationType<T>;
  static constexpr int kWidth = W;
  static constexpr bool kIsFull = W == kPackWidth<T>;

  // As it lies in registers, and widened to what is computed in.
  using Bits = std::conditional_t<kIsFull, PackBits, Pack<T, W>>;
  using Wide = Pack<A, W>;

  __device__ static Bits Load(const T* p) {
    if constexpr (kIsFull) {
      return ToBits(LoadPack<W>(p));
    } else {
      return LoadPack<W>(p);
    }
  }

  __device__ static void Store(const Bits& bits, T* p) {
    StorePack(Values(bits), p);
  }

  __device__ static Wide Widened(const Bits& bits) {
    Wide wide;
#ifdef __CUDA_ARCH__
    if constexpr (kIsFull && sizeof(T) == 2) {
      WidenTwo<T>(bits.x, wide.values);
      WidenTwo<T>(bits.y, wide.values + 2);
      WidenTwo<T>(bits.z, wide.values + 4);
      WidenTwo<T>(bits.w, wide.values + 6);
      return wide;
    }
#endif
    const Pack<T, W> values = Values(bits);
    for (int k = 0; k < W; ++k) {
      wide.values[k] = static_cast<A>(values.values[k]);
    }
    return wide;
  }

  // To nearest even.
  __device__ static Bits Rounded(const Wide& wide) {
#ifdef __CUDA_ARCH__
    if constexpr (kIsFull && sizeof(T) == 2) {
      return {RoundTwo<T>(wide.values), RoundTwo<T>(wide.values + 2),
              RoundTwo<T>(wide.values + 4), RoundTwo<T>(wide.values + 6)};
    }
#endif
    Pack<T, W> values;
    for (int k = 0; k < W; ++k) {
      values.values[k] = static_cast<T>(wide.values[k]);
    }
    if constexpr (kIsFull) {
      return ToBits(values);
    } else {
      return values;
    }
  }

  // a + b.
  __device__ static Wide Sum(Wide a, const Wide& b) {
    for (int k = 0; k < W; ++k) a.values[k] += b.values[k];
    return a;
  }

  // x * scale.
  __device__ static Wide Scaled(Wide x, A scale) {
    for (int k = 0; k < W; ++k) x.values[k] *= scale;
    return x;
  }

  // a * b, element by element.
  __device__ static Wide Product(Wide a, const Wide& b) {
    for (int k = 0; k < W; ++k) a.values[k] *= b.values[k];
    return a;
  }

  // The sum of a * b, in A: a thread adds few of them before it goes on in
  // double.
  __device__ static A Dot(const Wide& a, const Wide& b) {
    A sum = 0;
    for (int k = 0; k < W; ++k) sum += a.values[k] * b.values[k];
    return sum;
  }

  // scale * (g - x * scale * mean), where mean is that of x * g times scale. In
  // this form every factor is of the order of its row; the cube of scale may
  // overflow.
  __device__ static Wide Backward(const Wide& x, Wide g, A scale, A mean) {
    for (int k = 0; k < W; ++k) {
      const A y = x.values[k] * scale;
      g.values[k] = scale * (g.values[k] - y * mean);
    }
    return g;
  }

 private:
  __device__ static Pack<T, W> Values(const Bits& bits) {
    if constexpr (kIsFull) {
      return ToPack<T>(bits);
    } else {
      return bits;
    }
  }
};

// The arguments of an operation, and what its kernels have of them.
template <typename Args>
struct Rows : Args {
  int64_t vectors = 0;  // of a row
  double inverse_n = 0;
};

// Returns fn(Vectors<T, W>(), rows): full vectors where all arrays are aligned
// (null pointers are) and rows are whole vectors, else one element at a time,
// as always for doubles, which are rare on GPUs.
template <template <typename> class Args, typename T, typename Fn,
          typename... Pointers>
auto WithVectors(const Args<T>& args, const Fn& fn,
                 const Pointers*... pointers) {
  Rows<Args<T>> rows = {args, args.n, 1 / static_cast<double>(args.n)};
  if constexpr (std::is_same_v<AccumulationType<T>, float>) {
    constexpr int kWidth = kPackWidth<T>;
    if ((IsPackAligned(pointers) && ...) && args.n % kWidth == 0) {
      rows.vectors /= kWidth;
      return fn(Vectors<T, kWidth>(), rows);
    }
  }
  return fn(Vectors<T, 1>(), rows);
}

// The scale of a row whose sum of squares is `power`.
template <typename Args>
__device__ inline auto ScaleOf(const Rows<Args>& rows, double power) {
  using A = std::decay_t<decltype(*rows.scale)>;
  return ReciprocalSqrt<A>(power * rows.inverse_n + rows.eps);
}

// --- Sums over the threads of a row ------------------------------------------
//
// Sums over the threads of a warp, a block or a cluster are always added up in
// the same order, and every thread gets the same sum.

// N sums at a time.
template <typename A, int N>
struct Sums {
  A of[N];

  __device__ Sums& operator+=(const Sums& other) {
    for (int i = 0; i < N; ++i) of[i] += other.of[i];
    return *this;
  }
};

template <typename A, int N>
__device__ inline Sums<double, N> ToDouble(const Sums<A, N>& sums) {
  Sums<double, N> wide;
  for (int i = 0; i < N; ++i) wide.of[i] = static_cast<double>(sums.of[i]);
  return wide;
}

// The sums of the lane that differs in the bits of `offset`.
template <int N>
__device__ inline Sums<double, N> OfOtherLane(Sums<double, N> sums,
                                              int offset) {
  constexpr unsigned kAllLanes = 0xffffffff;
  for (double& sum : sums.of) sum = __shfl_xor_sync(kAllLanes, sum, offset);
  return sums;
}

// Over `lanes` neighboring threads, a power of two, of a warp.
template <typename Sum>
__device__ inline Sum SumOverLanes(Sum value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    value += OfOtherLane(value, offset);
  }
  return value;
}

// Over the threads of a row that the block has, in one barrier. `partial`, 32
// of them in shared memory, is free again after the block's next barrier.
template <typename Sum>
__device__ inline Sum SumOverRow(Sum value, const RowLanes& lanes,
                                 Sum* partial) {
  if (lanes.lane_bits <= 5) return SumOverLanes(value, 1 << lanes.lane_bits);
  value = SumOverLanes(value, 32);
  const unsigned warp = threadIdx.x / 32;
  const unsigned warps = lanes.Step(static_cast<int>(blockDim.x)) / 32;
  const unsigned first = lanes.rows == 1 ? 0 : warp & ~(warps - 1);
  if (threadIdx.x % 32 == 0) partial[warp] = value;
  __syncthreads();
  value = partial[first];
  for (unsigned i = 1; i < warps; ++i) value += partial[first + i];
  return value;
}

// Older GPUs have no clusters, and are never told to use them.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define XLA_FFI_KIT_HAS_CLUSTERS
#endif

// Says that this block runs. Threads of a cluster call it first of all, so that
// nobody waits long in SumOverCluster().
__device__ inline void BeginCluster() {
#ifdef XLA_FFI_KIT_HAS_CLUSTERS
  __cluster_barrier_arrive_relaxed();
#endif
}
__device__ inline void WaitForCluster() {
#ifdef XLA_FFI_KIT_HAS_CLUSTERS
  __cluster_barrier_wait();
#endif
}

// Over the blocks of a cluster, of what all threads of a block have. The other
// blocks run: see BeginCluster(). Each block writes into `of_blocks` of all;
// they are free again after the cluster's next barrier.
template <typename Sum>
__device__ inline Sum SumOverCluster(Sum value, Sum* of_blocks) {
#ifdef XLA_FFI_KIT_HAS_CLUSTERS
  const unsigned blocks = __clusterSizeInBlocks();
  Sum* of_this_block = of_blocks + __clusterRelativeBlockRank();
  if (threadIdx.x < blocks) {
    *static_cast<Sum*>(__cluster_map_shared_rank(of_this_block, threadIdx.x)) =
        value;
  }
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  value = of_blocks[0];
  for (unsigned i = 1; i < blocks; ++i) value += of_blocks[i];
#endif
  return value;
}

#undef XLA_FFI_KIT_HAS_CLUSTERS

// --- Asynchronous copies -----------------------------------------------------
//
// From global to shared memory: they take no registers while they are on their
// way. CUDA's cuda_pipeline_primitives.h has the same functions, but needs
// libcu++ with its 2,000 files.

// Begins to copy the vector at `from`, past the first cache: it is read once.
// `from` is a multiple of kPackBytes.
__device__ inline void BeginCopy(PackBits* to, const void* from) {
#ifdef __NVCC__
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address),
               "l"(from)
               : "memory");
#else
  __pipeline_memcpy_async(to, from, kPackBytes);
#endif
}

// Makes a stage of the copies that the thread has begun since the last call.
__device__ inline void EndStage() {
#ifdef __NVCC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  __pipeline_commit();
#endif
}

// Waits for all stages of the thread but the last kLast. Other threads do not
// see them yet.
template <int kLast = 0>
__device__ inline void WaitForCopies() {
#ifdef __NVCC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kLast) : "memory");
#else
  __pipeline_wait_prior(kLast);
#endif
}

// Makes the compiler load values from shared memory again, because registers,
// where it would keep them, are fewer.
__device__ inline void LoadAgain() {
#ifdef __NVCC__
  asm volatile("" ::: "memory");
#endif
}

}  // namespace rms_norm_internal
}  // namespace xla_ffi_kit

#endif  // __CUDACC__

#endif  // XLA_FFI_OPS_RMS_NORM_CUDA_DEVICE_H_
