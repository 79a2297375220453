#pragma once

// The CUDA pointwise loop. What depends on a functor are two kernels per compute type, one for
// groups of elements in 16-byte accesses and one for anything else; both take the operands' dtypes
// at run time. See Note [Two kernels per functor] in pointwise.cu.

#include <cstddef>
#include <utility>

#include "tensora/backend/cuda/elements.cuh"
#include "tensora/core/functor.h"
#include "tensora/core/kernel.h"

namespace tensora::cuda {

/// A number of the compute type, as bits.
struct alignas(8) RawValue {
  unsigned char bytes[8];

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

/// Elements per thread of the vector kernel: two accesses of 16 bytes in the compute type.
template <class C>
inline constexpr int kGroup = 32 / static_cast<int>(sizeof(C));

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
  }
}

template <class C>
__device__ inline C load_near(const char* from, DType dtype) {
  C value{};
  visit_near<C>(dtype,
                [&]<class T>() { value = load_value<C>(*reinterpret_cast<const T*>(from)); });
  return value;
}

// One body per compute type, called: inlined into every operand of every functor, these switches
// would be most of the library's code.
template <class C>
__device__ __noinline__ C load_any(const char* from, DType dtype) {
  C value{};
  visit_any(dtype, [&]<class T>() { value = load_value<C>(*reinterpret_cast<const T*>(from)); });
  return value;
}
template <class C>
__device__ __noinline__ void store_any(char* to, DType dtype, C value) {
  visit_any(dtype, [&]<class T>() { *reinterpret_cast<T*>(to) = store_value<T>(value); });
}

template <class C, int N>
__device__ inline void load_operand(const PointwiseParams<N>& params, int k, int at,
                                    C (&values)[kGroup<C>]) {
  const InputParams& in = params.in[k];
  if (in.access == Access::vector) {
    visit_near<C>(in.dtype, [&]<class T>() { load_pack<T>(in.data + at, values); });
    return;
  }
  const C value = in.access == Access::constant ? in.value.template as<C>()
                                                : load_near<C>(in.data + at, in.dtype);
#pragma unroll
  for (int i = 0; i < kGroup<C>; ++i) values[i] = value;
}

template <class F, class C, std::size_t... I>
__device__ inline void run_tail(const PointwiseParams<F::arity>& params, const F& functor,
                                unsigned group, std::index_sequence<I...>) {
  for (unsigned i = 0; i < params.tail; ++i) {
    const unsigned n = group * kGroup<C> + i;
    const auto value = [&](const InputParams& in, unsigned group_bytes) {
      if (in.access == Access::constant) return in.value.template as<C>();
      return load_near<C>(in.data + n * (group_bytes / kGroup<C>), in.dtype);
    };
    const C result = functor.forward(value(params.in[I], params.walk.strides[I + 1][0])...);
    visit_near<C>(params.out_dtype,
                  [&]<class T>() { reinterpret_cast<T*>(params.out)[n] = store_value<T>(result); });
  }
}

template <class F, class C, std::size_t... I>
__device__ inline void run_group(const PointwiseParams<F::arity>& params, const F& functor,
                                 std::index_sequence<I...> operands) {
  const unsigned group = blockIdx.x * kThreads + threadIdx.x;
  if (group >= params.count) {
    if (group == params.count) run_tail<F, C>(params, functor, group, operands);
    return;
  }
  int at[F::arity + 1];
  params.walk.offsets(group, at);
  C values[F::arity][kGroup<C>];
  (load_operand<C>(params, I, at[I + 1], values[I]), ...);
  C result[kGroup<C>];
#pragma unroll
  for (int i = 0; i < kGroup<C>; ++i) result[i] = functor.forward(values[I][i]...);
  visit_near<C>(params.out_dtype, [&]<class T>() { store_pack<T>(params.out + at[0], result); });
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

template <class F, class C>
__global__ void __launch_bounds__(kThreads)
    vector_kernel(const __grid_constant__ PointwiseParams<F::arity> params, const F functor) {
  run_group<F, C>(params, functor, std::make_index_sequence<F::arity>());
}

template <class F, class C>
__global__ void __launch_bounds__(kThreads)
    element_kernel(const __grid_constant__ PointwiseParams<F::arity> params, const F functor) {
  run_element<F, C>(params, functor, std::make_index_sequence<F::arity>());
}

/// A functor's kernels for one compute type; null where the functor does not take it.
struct KernelPair {
  const void* vector = nullptr;
  const void* element = nullptr;
};
/// Narrow dtypes are computed in a wider one: f16 and bf16 in float, bool and integers up to 32
/// bits in int32.
struct FunctorKernels {
  KernelPair f32, f64, i32, i64;
};

/// Chooses the kernel, cuts the work into launches and queues them on the current stream.
void run_pointwise(const KernelContext& context, const FunctorKernels& kernels, int arity,
                   const void* functor);

template <class F, class C>
KernelPair kernel_pair() {
  return {reinterpret_cast<const void*>(&vector_kernel<F, C>),
          reinterpret_cast<const void*>(&element_kernel<F, C>)};
}

template <class F>
FunctorKernels functor_kernels() {
  FunctorKernels kernels;
  if constexpr (functors::computes_floats(F::types)) {
    kernels.f32 = kernel_pair<F, float>();
    kernels.f64 = kernel_pair<F, double>();
  }
  if constexpr (functors::computes_integers(F::types)) {
    kernels.i32 = kernel_pair<F, int>();
    kernels.i64 = kernel_pair<F, int64_t>();
  }
  return kernels;
}

template <class F>
void pointwise_kernel(const KernelContext& context, const F& functor) {
  static const FunctorKernels kernels = functor_kernels<F>();
  run_pointwise(context, kernels, F::arity, &functor);
}

}  // namespace tensora::cuda
