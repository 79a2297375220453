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
  bool passes;          // see Note [Passing through]
};

template <int N>
struct PointwiseParams {
  Walk<N + 1> walk;  // array 0 is the output
  char* out;
  InputParams in[N == 0 ? 1 : N];
  unsigned count;  // groups, or elements
  unsigned tail;   // vector kernel: elements after the last whole group
  DType out_dtype;
  bool passes;  // the output; see Note [Passing through]
  bool plain;   // see Note [Plain groups]
};

/// Elements of one access of the vector kernel: 16 bytes of the compute type.
template <class C>
inline constexpr int kGroup = 16 / static_cast<int>(sizeof(C));
/// Elements of one access of the half kernel: 16 bytes of a 16-bit type.
inline constexpr int kHalfGroup = 8;

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

/// Which arrays of a functor's half kernel may be bool, beside numbers of 16 bits: a condition, and
/// the answer to a question.
template <class F>
inline constexpr bool kTakesCondition = F::condition_first;
template <class F>
inline constexpr bool kGivesTruth = F::types == functors::Types::predicate;

// The element types that operands of a kernel with groups of G elements can have; kBool: of a half
// kernel, bool too.
template <class C, int G, bool kBool, class Body>
__device__ inline void visit_grouped(DType dtype, Body&& body) {
  if constexpr (G == kGroup<C>) {
    visit_near<C>(dtype, body);
  } else {
    if constexpr (kBool)
      if (dtype == DType::boolean) return body.template operator()<bool>();
    if (dtype == DType::float16)
      body.template operator()<Half>();
    else
      body.template operator()<BFloat16>();
  }
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

// Note [Passing through]
// An output that is larger than the L2 cache will not be found there by the op that reads it next:
// its own end has displaced its beginning. Its lines, and those of inputs that are read once for
// it, are marked as the first to be evicted, and no longer displace one another before they are
// written. Smaller outputs stay in the cache.
__device__ inline void fetch_passing(const char* from, RawGroup& to) {
  const uint4 words = __ldcs(reinterpret_cast<const uint4*>(from));
  to = {words.x, words.y, words.z, words.w};
}
template <class T, class C, int G>
__device__ inline void store_group(char* to, bool passes, const C (&from)[G]) {
  if constexpr (sizeof(T) * G == 16)
    if (passes) {
      uint4 words;
      store_pack<T>(reinterpret_cast<char*>(&words), from);
      return __stcs(reinterpret_cast<uint4*>(to), words);
    }
  store_pack<T>(to, from);
}

// The thread's group of one operand, as it lies in memory; see Note [Fetch first, convert later].
template <class C, int G, bool kBool>
__device__ inline void fetch_operand(const InputParams& in, int at, RawGroup& raw) {
  const auto fetch_width = [&]<int width>(std::integral_constant<int, width>) {
    if (width * G == 16 && in.passes)
      fetch_passing(in.data + at, raw);
    else if (in.access == Access::vector)
      fetch<width * G>(in.data + at, raw);
    else
      fetch<width>(in.data + at, raw);
  };
  if (in.access == Access::constant) return;
  if constexpr (G == kHalfGroup) {
    if constexpr (kBool)
      if (in.width == 1) return fetch_width(std::integral_constant<int, 1>());
    fetch_width(std::integral_constant<int, 2>());
  } else {
    if (in.width == sizeof(C)) return fetch_width(std::integral_constant<int, sizeof(C)>());
    if constexpr (sizeof(C) == 4)
      if (in.width == 2) return fetch_width(std::integral_constant<int, 2>());
    fetch_width(std::integral_constant<int, 1>());
  }
}

template <class C, int G, bool kBool>
__device__ inline void convert_operand(const InputParams& in, const RawGroup& raw, C (&values)[G]) {
  if (in.access == Access::vector) {
    visit_grouped<C, G, kBool>(in.dtype, [&]<class T>() {
#pragma unroll
      for (int i = 0; i < G; ++i) values[i] = load_value<C>(element_of<T>(raw, i));
    });
    return;
  }
  C repeated{};
  if (in.access == Access::constant)
    repeated = in.value.template as<C>();
  else
    visit_grouped<C, G, kBool>(in.dtype,
                               [&]<class T>() { repeated = load_value<C>(element_of<T>(raw, 0)); });
#pragma unroll
  for (int i = 0; i < G; ++i) values[i] = repeated;
}

/// A functor's formula serves every device. Where half kernels have a shorter one, which is only as
/// good as float16 needs, this is specialised for the functor, with a function `forward`
/// (ops/pointwise/cuda_formulas.cuh).
template <class F>
struct HalfFormula {};

template <class F, int G, class C, class... Operands>
__device__ inline C value_of(const F& functor, C first, Operands... others) {
  if constexpr (G == kHalfGroup && requires { HalfFormula<F>::forward(first, others...); })
    return HalfFormula<F>::forward(first, others...);
  else
    return functor.forward(first, others...);
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
  const C result = value_of<F, G>(functor, value(params.in[I])...);
  visit_grouped<C, G, kGivesTruth<F>>(params.out_dtype, [&]<class T>() {
    reinterpret_cast<T*>(params.out)[n] = store_value<T>(result);
  });
}

// Note [Plain groups]
// Most calls have contiguous arrays of one dtype. The host says so, and then the kernel looks
// nothing up: its loads follow its first instructions, where each branch on a dtype or a stride
// before them would leave memory idle for longer at the start of every block.
template <class F, class C, int G, std::size_t... I>
__device__ inline void run_plain_group(const PointwiseParams<F::arity>& params, const F& functor,
                                       unsigned index, std::index_sequence<I...>) {
  const size_t at = size_t{index} * 16;
  RawGroup raw[F::arity];
  if (params.passes)
    (fetch_passing(params.in[I].data + at, raw[I]), ...);
  else
    (fetch<16>(params.in[I].data + at, raw[I]), ...);
  const auto finish = [&]<class T>() {
    C result[G];
#pragma unroll
    for (int i = 0; i < G; ++i)
      result[i] = value_of<F, G>(functor, load_value<C>(element_of<T>(raw[I], i))...);
    store_group<T>(params.out + at, params.passes, result);
  };
  if constexpr (G == kGroup<C>)
    finish.template operator()<C>();
  else
    visit_grouped<C, G, false>(params.out_dtype, finish);
}

// A group per thread: several would keep more registers, and so fewer threads on a multiprocessor.
template <class F, class C, int G, std::size_t... I>
__device__ inline void run_group(const PointwiseParams<F::arity>& params, const F& functor,
                                 std::index_sequence<I...> operands) {
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x < params.tail)
    run_tail<F, C, G>(params, functor, operands);
  const unsigned index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= params.count) return;
  if constexpr (std::is_same_v<C, float> && F::arity > 0)
    if (params.plain) return run_plain_group<F, C, G>(params, functor, index, operands);
  int at[F::arity + 1];
  params.walk.offsets(index, at);
  RawGroup raw[F::arity];
  (fetch_operand < C, G, kTakesCondition<F> && I == 0 > (params.in[I], at[I + 1], raw[I]), ...);
  C values[F::arity][G];
  (convert_operand < C, G, kTakesCondition<F> && I == 0 > (params.in[I], raw[I], values[I]), ...);
  C result[G];
#pragma unroll
  for (int i = 0; i < G; ++i) result[i] = value_of<F, G>(functor, values[I][i]...);
  visit_grouped<C, G, kGivesTruth<F>>(params.out_dtype, [&]<class T>() {
    store_group<T>(params.out + at[0], params.passes, result);
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
  run_group<F, C, G>(params, functor, std::make_index_sequence<F::arity>());
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
  bool takes_condition, gives_truth;
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
  FunctorKernels kernels{.takes_condition = kTakesCondition<F>, .gives_truth = kGivesTruth<F>};
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
