#pragma once

// The CUDA pointwise loop. What depends on a functor are two or three kernels per compute type, for
// groups of elements in wide accesses and for anything else; they take the operands' dtypes at run
// time. See Note [Kernels of a functor] in pointwise.cu.

#include <cstddef>
#include <type_traits>
#include <utility>

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/core/functor.h"
#include "tensora/core/kernel.h"

namespace tensora::cuda {

/// A number of the compute type, as bits.
struct alignas(kMaxElementSize) RawValue {
  unsigned char bytes[kMaxElementSize];

  template <class C>
  __device__ C as() const {
    return *reinterpret_cast<const C*>(bytes);
  }
};

struct InputParams {
  const char* data;
  RawValue value;  // Access::constant
  DType dtype;
  Access access;
  unsigned char width;  // bytes of an element
};

template <int N>
struct PointwiseParams {
  Walk<N + 1> walk;  // array 0 is the output
  char* out;
  InputParams in[N == 0 ? 1 : N];
  unsigned count;  // groups, or elements
  unsigned tail;   // vector kernel: elements after the last whole group
  DType out_dtype;
};

/// Elements of one access of the vector kernel: 16 bytes of the compute type.
template <class C>
inline constexpr int kGroup = 16 / static_cast<int>(sizeof(C));
/// Elements of one access of the half kernel: 16 bytes of a 16-bit type.
inline constexpr int kHalfGroup = 8;
/// Accesses of a thread that are in flight together, per operand. Adjacent threads access adjacent
/// groups, so those of one thread are kThreads groups apart.
inline constexpr int kGroupsPerThread = 2;

// The dtypes that the vector kernel of each compute type reads and writes; see can_vectorise().
template <class C, class Body>
__device__ inline void visit_near(DType dtype, Body&& body) {
  if (dtype == DType::boolean) return body.template operator()<bool>();
  if constexpr (sizeof(C) == 8) {
    body.template operator()<C>();
  } else if constexpr (is_float_type<C>) {
    if (dtype == DType::float16)
      body.template operator()<Half>();
    else if (dtype == DType::bfloat16)
      body.template operator()<BFloat16>();
    else
      body.template operator()<float>();
  } else {
    if (dtype == DType::int16)
      body.template operator()<short>();
    else if (dtype == DType::int8)
      body.template operator()<signed char>();
    else if (dtype == DType::uint8)
      body.template operator()<unsigned char>();
    else
      body.template operator()<int>();
  }
}

// The element types that operands of a kernel with groups of G elements can have.
template <class C, int G, class Body>
__device__ inline void visit_grouped(DType dtype, Body&& body) {
  if constexpr (G == kGroup<C>)
    visit_near<C>(dtype, body);
  else if (dtype == DType::float16)
    body.template operator()<Half>();
  else
    body.template operator()<BFloat16>();
}

// The real dtypes that compute.
template <class Body>
__device__ inline void visit_any(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::boolean:
      return body.template operator()<bool>();
    case DType::uint8:
      return body.template operator()<unsigned char>();
    case DType::int8:
      return body.template operator()<signed char>();
    case DType::int16:
      return body.template operator()<short>();
    case DType::int32:
      return body.template operator()<int>();
    case DType::int64:
      return body.template operator()<int64_t>();
    case DType::float16:
      return body.template operator()<Half>();
    case DType::bfloat16:
      return body.template operator()<BFloat16>();
    case DType::float32:
      return body.template operator()<float>();
    case DType::float64:
      return body.template operator()<double>();
    default:
      return;
  }
}

// The dtypes that meet compute type C: see load_fn and store_fn of the CPU's convert.h.
template <class C, class Body>
__device__ inline void visit_meeting(DType dtype, Body&& body) {
  if constexpr (is_complex_type<C>) {
    if (dtype == DType::complex64) return body.template operator()<Complex<float>>();
    if (dtype == DType::complex128) return body.template operator()<Complex<double>>();
  }
  if (dtype == DType::float8_e4m3fn) return body.template operator()<Float8E4M3>();
  if (dtype == DType::float8_e5m2) return body.template operator()<Float8E5M2>();
  visit_any(dtype, body);
}

template <class C>
__device__ inline C load_near(const char* from, DType dtype) {
  C value{};
  visit_near<C>(dtype,
                [&]<class T>() { value = load_value<C>(*reinterpret_cast<const T*>(from)); });
  return value;
}

// One function per compute type, not inlined: in every operand of every functor, these switches
// would be most of the library's code.
template <class C>
__device__ __noinline__ C load_any(const char* from, DType dtype) {
  C value{};
  visit_meeting<C>(dtype,
                   [&]<class T>() { value = load_value<C>(*reinterpret_cast<const T*>(from)); });
  return value;
}
template <class C>
__device__ __noinline__ void store_any(char* to, DType dtype, C value) {
  visit_meeting<C>(dtype, [&]<class T>() { *reinterpret_cast<T*>(to) = store_value<T>(value); });
}

// The thread's groups of one operand, as they lie in memory; see Note [Fetch first, convert later].
template <class C, int G>
__device__ inline void fetch_operand(const InputParams& in, const int (&at)[kGroupsPerThread],
                                     RawGroup (&raw)[kGroupsPerThread]) {
  const auto fetch_all = [&]<int width>(std::integral_constant<int, width>) {
    if (in.access == Access::vector) {
#pragma unroll
      for (int u = 0; u < kGroupsPerThread; ++u) fetch<width * G>(in.data + at[u], raw[u]);
    } else {
#pragma unroll
      for (int u = 0; u < kGroupsPerThread; ++u) fetch<width>(in.data + at[u], raw[u]);
    }
  };
  if (in.access == Access::constant) return;
  if constexpr (G == kHalfGroup) {
    fetch_all(std::integral_constant<int, 2>());
  } else {
    if (in.width == sizeof(C)) return fetch_all(std::integral_constant<int, sizeof(C)>());
    if constexpr (sizeof(C) == 4)
      if (in.width == 2) return fetch_all(std::integral_constant<int, 2>());
    fetch_all(std::integral_constant<int, 1>());
  }
}

template <class C, int G>
__device__ inline void convert_operand(const InputParams& in,
                                       const RawGroup (&raw)[kGroupsPerThread],
                                       C (&values)[kGroupsPerThread][G]) {
  if (in.access == Access::vector) {
    visit_grouped<C, G>(in.dtype, [&]<class T>() {
#pragma unroll
      for (int u = 0; u < kGroupsPerThread; ++u)
#pragma unroll
        for (int i = 0; i < G; ++i) values[u][i] = load_value<C>(element_of<T>(raw[u], i));
    });
    return;
  }
  C repeated[kGroupsPerThread];
  if (in.access == Access::constant) {
#pragma unroll
    for (int u = 0; u < kGroupsPerThread; ++u) repeated[u] = in.value.template as<C>();
  } else {
    visit_grouped<C, G>(in.dtype, [&]<class T>() {
#pragma unroll
      for (int u = 0; u < kGroupsPerThread; ++u)
        repeated[u] = load_value<C>(element_of<T>(raw[u], 0));
    });
  }
#pragma unroll
  for (int u = 0; u < kGroupsPerThread; ++u)
#pragma unroll
    for (int i = 0; i < G; ++i) values[u][i] = repeated[u];
}

// The elements after the last whole group: a thread each.
template <class F, class C, int G, std::size_t... I>
__device__ inline void run_tail(const PointwiseParams<F::arity>& params, const F& functor,
                                std::index_sequence<I...>) {
  const unsigned n = params.count * G + threadIdx.x;
  const auto value = [&](const InputParams& in) {
    if (in.access == Access::constant) return in.value.template as<C>();
    const unsigned element = in.access == Access::repeat ? 0 : n;
    return load_near<C>(in.data + element * in.width, in.dtype);
  };
  const C result = functor.forward(value(params.in[I])...);
  visit_grouped<C, G>(params.out_dtype, [&]<class T>() {
    reinterpret_cast<T*>(params.out)[n] = store_value<T>(result);
  });
}

template <class F, class C, int G, std::size_t... I>
__device__ inline void run_groups(const PointwiseParams<F::arity>& params, const F& functor,
                                  std::index_sequence<I...> operands) {
  constexpr int U = kGroupsPerThread;
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x < params.tail)
    run_tail<F, C, G>(params, functor, operands);
  const unsigned first = blockIdx.x * (kThreads * U) + threadIdx.x;
  if (first >= params.count) return;
  int at[F::arity + 1][U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    // Beyond the end the last group is computed once more, and not stored.
    int offsets[F::arity + 1];
    params.walk.offsets(min(first + u * kThreads, params.count - 1), offsets);
#pragma unroll
    for (int k = 0; k <= F::arity; ++k) at[k][u] = offsets[k];
  }
  RawGroup raw[F::arity][U];
  (fetch_operand<C, G>(params.in[I], at[I + 1], raw[I]), ...);
  C values[F::arity][U][G];
  (convert_operand<C, G>(params.in[I], raw[I], values[I]), ...);
  C result[U][G];
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int i = 0; i < G; ++i) result[u][i] = functor.forward(values[I][u][i]...);
  visit_grouped<C, G>(params.out_dtype, [&]<class T>() {
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (first + u * kThreads < params.count) store_pack<T>(params.out + at[0][u], result[u]);
  });
}

template <class F, class C, std::size_t... I>
__device__ inline void run_element(const PointwiseParams<F::arity>& params, const F& functor,
                                   std::index_sequence<I...>) {
  const unsigned index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= params.count) return;
  int at[F::arity + 1];
  params.walk.offsets(index, at);
  const auto value = [&](const InputParams& in, int offset) {
    return in.access == Access::constant ? in.value.template as<C>()
                                         : load_any<C>(in.data + offset, in.dtype);
  };
  const C result = functor.forward(value(params.in[I], at[I + 1])...);
  store_any<C>(params.out + at[0], params.out_dtype, result);
}

template <class F, class C, int G>
__global__ void __launch_bounds__(kThreads)
    vector_kernel(const __grid_constant__ PointwiseParams<F::arity> params, const F functor) {
  run_groups<F, C, G>(params, functor, std::make_index_sequence<F::arity>());
}

template <class F, class C>
__global__ void __launch_bounds__(kThreads)
    element_kernel(const __grid_constant__ PointwiseParams<F::arity> params, const F functor) {
  run_element<F, C>(params, functor, std::make_index_sequence<F::arity>());
}

/// A functor's kernels for one compute type; null where the functor does not take it.
struct KernelSet {
  const void* vector = nullptr;
  const void* element = nullptr;
  const void* half = nullptr;  // of float only
};
/// Narrow dtypes are computed in a wider one: f16 and bf16 in float, bool and integers up to 32
/// bits in int32. Complex numbers have the element kernel alone.
struct FunctorKernels {
  KernelSet f32, f64, i32, i64, c64, c128;
};

/// Chooses the kernel, splits the work into launches and queues them on the current stream.
void run_pointwise(const KernelContext& context, const FunctorKernels& kernels, int arity,
                   const void* functor);

template <class F, class C>
KernelSet kernel_set() {
  KernelSet kernels{reinterpret_cast<const void*>(&vector_kernel<F, C, kGroup<C>>),
                    reinterpret_cast<const void*>(&element_kernel<F, C>)};
  if constexpr (std::is_same_v<C, float>)
    kernels.half = reinterpret_cast<const void*>(&vector_kernel<F, C, kHalfGroup>);
  return kernels;
}

template <class F>
FunctorKernels functor_kernels() {
  FunctorKernels kernels;
  if constexpr (functors::computes_floats(F::types)) {
    kernels.f32 = kernel_set<F, float>();
    kernels.f64 = kernel_set<F, double>();
  }
  if constexpr (functors::computes_integers(F::types)) {
    kernels.i32 = kernel_set<F, int>();
    kernels.i64 = kernel_set<F, int64_t>();
  }
  if constexpr (F::complex) {
    kernels.c64.element = reinterpret_cast<const void*>(&element_kernel<F, Complex<float>>);
    kernels.c128.element = reinterpret_cast<const void*>(&element_kernel<F, Complex<double>>);
  }
  return kernels;
}

template <class F>
void pointwise_kernel(const KernelContext& context, const F& functor) {
  static const FunctorKernels kernels = functor_kernels<F>();
  run_pointwise(context, kernels, F::arity, &functor);
}

}  // namespace tensora::cuda
