#include "tensora/backend/cuda/loops/pointwise.cuh"

#include <algorithm>
#include <cstring>
#include <deque>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/small_vector.h"

// Note [Kernels of a functor]
// There are a dozen dtypes, up to three operands, and any strides; a kernel per combination would
// take gigabytes of code. Pointwise ops are memory-bound, so the few instructions that a uniform
// branch on a dtype costs are free. A functor is compiled for four compute types, and for each as
//   vector kernel   a thread computes a group of 16 bytes' worth of elements (in the compute type),
//                   in one access; operands are such groups too, or one element repeated (a
//                   broadcast), or a constant from the host;
//   half kernel     the same for float16 and bfloat16 alone, in groups of 8, beside a condition or
//                   as a question whose answers are bool. Half the bytes leave
//                   half the time for twice the elements: what a thread does once, like finding
//                   its addresses, must serve more of them;
//   element kernel  a thread computes one element; any strides, any dtypes.
// Numbers from the host (x + 2) are passed with the launch: no copy, no wait.

namespace tensora::cuda {
namespace {

bool is_constant(const View& view, Device device) {
  return view.device.is_cpu() && device.is_cuda();
}

// Whether the half kernel takes these arrays.
bool is_all_half(const KernelContext& context, const FunctorKernels& kernels) {
  const auto is_taken = [](const View& view, bool may_be_bool) {
    return view.dtype == DType::float16 || view.dtype == DType::bfloat16 ||
           (may_be_bool && view.dtype == DType::boolean);
  };
  for (size_t i = 0; i < context.in.size(); ++i)
    if (!is_constant(context.input(i), context.device) &&
        !is_taken(context.input(i), kernels.takes_condition && i == 0))
      return false;
  return is_taken(context.output(), kernels.gives_truth);
}

struct Choice {
  const KernelSet* kernels;
  DType dtype;  // of the compute type
  int64_t group;
  bool half;  // the half kernel may serve
};

Choice choose(const KernelContext& context, const FunctorKernels& kernels) {
  Choice choice{};
  switch (context.compute_dtype) {
    case DType::float64:
      choice = {&kernels.f64, DType::float64, kGroup<double>};
      break;
    case DType::int64:
      choice = {&kernels.i64, DType::int64, kGroup<int64_t>};
      break;
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
      choice = {&kernels.f32, DType::float32, kGroup<float>};
      break;
    case DType::complex64:
      choice = {&kernels.c64, DType::complex64, 0};
      break;
    case DType::complex128:
      choice = {&kernels.c128, DType::complex128, 0};
      break;
    default:
      choice = {&kernels.i32, DType::int32, kGroup<int>};
  }
  check(choice.kernels->element != nullptr, context.op, ": not supported for ",
        context.compute_dtype);
  choice.half = choice.kernels->half && is_all_half(context, kernels);
  return choice;
}

// The dtypes of visit_near().
bool is_near(DType dtype, DType compute) {
  if (dtype == compute || dtype == DType::boolean) return true;
  if (compute == DType::float32) return dtype == DType::float16 || dtype == DType::bfloat16;
  if (compute == DType::int32) return is_integral(dtype) && dtype != DType::int64;
  return false;
}

// Whether integers must be truncated to the narrower dtype to which the operands are promoted. Only
// 0-dim operands can be wider than that: they yield in type promotion.
bool is_cut(DType from, DType meet) {
  const auto is_whole = [](DType dtype) { return dtype_info(dtype).category <= Category::integer; };
  return is_whole(from) && is_whole(meet) && element_size(meet) < 4 &&
         promote_types(from, meet) != meet;
}

bool can_vectorise(const KernelContext& context, const HostWalk& walk, DType compute,
                   int64_t group) {
  if (walk.dims > 1 && walk.sizes[0] % group != 0) return false;
  const auto groups = [&](int k, const View& view) {
    return is_near(view.dtype, compute) &&
           has_groups(walk, k, static_cast<int64_t>(element_size(view.dtype)), group);
  };
  if (!groups(0, context.output())) return false;
  for (size_t i = 0; i < context.in.size(); ++i) {
    const View& view = context.input(i);
    const int k = static_cast<int>(i) + 1;
    const bool repeats = walk.strides[k][0] == 0 && is_near(view.dtype, compute);
    if (!is_constant(view, context.device) && !repeats && !groups(k, view)) return false;
  }
  return true;
}

/// A kernel and the elements of a group; 0 for the element kernel.
struct Grouping {
  const void* kernel;
  int64_t group;
};

Grouping choose_grouping(const KernelContext& context, const HostWalk& walk, const Choice& choice) {
  if (choice.half && can_vectorise(context, walk, choice.dtype, kHalfGroup))
    return {choice.kernels->half, kHalfGroup};
  if (choice.kernels->vector && can_vectorise(context, walk, choice.dtype, choice.group))
    return {choice.kernels->vector, choice.group};
  return {choice.kernels->element, 0};
}

// Complex numbers meet in complex compute types only, so no imaginary part is lost.
template <class C, class T>
C host_converted(T value) {
  if constexpr (is_complex_type<T> && !is_complex_type<C>)
    return static_cast<C>(value.re);
  else if constexpr (is_complex_type<C> && !is_complex_type<T>)
    return C(static_cast<decltype(C::re)>(value));
  else
    return static_cast<C>(value);
}

// The number in the type `compute` of the loop. Integers are truncated to the dtype `meet` to which
// the operands are promoted, which may be narrower; see is_cut().
RawValue host_value(const View& view, DType compute, DType meet) {
  RawValue raw{};
  visit_element(view.dtype, [&]<class T>() {
    const T value = *view.as<const T>();
    visit_computing(compute, [&]<class C>() {
      C converted = host_converted<C>(value);
      if (is_cut(view.dtype, meet))
        visit_dtype(meet,
                    [&]<class M>() { converted = host_converted<C>(host_converted<M>(value)); });
      std::memcpy(raw.bytes, &converted, sizeof converted);
    });
  });
  return raw;
}

/// Whether each element of array k is used once, in one group.
bool is_read_once(const HostWalk& walk, int k) {
  for (int d = 0; d < walk.dims; ++d)
    if (walk.strides[k][d] == 0) return false;
  return true;
}

/// See Note [Plain groups]. `part` is walked in groups.
template <int N>
bool is_plain(const PointwiseParams<N>& params, const HostWalk& part, int64_t group) {
  const auto width = static_cast<int64_t>(element_size(params.out_dtype));
  if (N == 0 || part.dims > 1 || width * group != 16) return false;
  for (int i = 0; i < N; ++i)
    if (params.in[i].access != Access::vector || params.in[i].dtype != params.out_dtype)
      return false;
  return true;
}

template <int N>
void launch(const KernelContext& context, const HostWalk& whole, const Choice& choice,
            const void* functor) {
  const auto [kernel, group] = choose_grouping(context, whole, choice);
  const bool vector = group != 0;
  PointwiseParams<N> params;
  params.out_dtype = context.output().dtype;
  params.passes = vector && context.output().bytes() > device_info(context.device.index).l2_bytes;
  for (size_t i = 0; i < N; ++i) {
    const View& view = context.input(i);
    params.in[i].dtype = view.dtype;
    params.in[i].width = static_cast<unsigned char>(element_size(view.dtype));
    params.in[i].access = is_constant(view, context.device) ? Access::constant
                          : !vector                         ? Access::element
                          : whole.strides[i + 1][0] == 0    ? Access::repeat
                                                            : Access::vector;
    params.in[i].passes = params.passes && params.in[i].access == Access::vector &&
                          is_read_once(whole, static_cast<int>(i) + 1);
    if (params.in[i].access == Access::constant)
      params.in[i].value = host_value(view, choice.dtype, context.compute_dtype);
  }
  HostWalk walk = whole;
  const int64_t tail = vector ? walk.sizes[0] % group : 0;
  if (vector) group_inner(walk, group);
  each_part(walk, [&](const HostWalk& part, bool is_last) {
    fill_walk(params.walk, part);
    params.out = part.data[0];
    for (int i = 0; i < N; ++i) params.in[i].data = part.data[i + 1];
    params.count = static_cast<unsigned>(part.count());
    params.tail = is_last ? static_cast<unsigned>(tail) : 0;
    params.plain = choice.dtype == DType::float32 && is_plain<N>(params, part, group);
    const dim3 blocks(std::max((params.count + kThreads - 1) / kThreads, 1u));
    void* args[] = {&params, const_cast<void*>(functor)};
    Launch{context.op, context.device.index}.run(kernel, blocks, dim3(kThreads), args);
  });
}

// The same, with operands on the device that must be truncated copied to their final dtype.
void run_with_cut_operands(const KernelContext& context, const FunctorKernels& kernels, int arity,
                           const void* functor) {
  SmallVector<const View*, 8> views;
  SmallVector<View, 8> cut;
  cut.reserve(context.in.size());
  std::deque<Scratch> memory;
  for (const View* view : context.in) {
    views.push_back(view);
    if (is_constant(*view, context.device) || !is_cut(view->dtype, context.compute_dtype)) continue;
    View& copy = cut.emplace_back(*view);
    copy.dtype = context.compute_dtype;
    copy.data = memory.emplace_back(context.device.index, copy.bytes()).data();
    copy_elements(context.op, *view, copy);
    views.back() = &copy;
  }
  KernelContext narrow = context;
  narrow.in = {views.data(), views.size()};
  run_pointwise(narrow, kernels, arity, functor);
}

}  // namespace

void run_pointwise(const KernelContext& context, const FunctorKernels& kernels, int arity,
                   const void* functor) {
  const View& out = context.output();
  if (out.numel == 0) return;
  check(!is_wide_unsigned(out.dtype), context.op, ": not supported for ", out.dtype, " on cuda");
  for (const View* view : context.in)
    check(!is_wide_unsigned(view->dtype), context.op, ": not supported for ", view->dtype,
          " on cuda");
  for (const View* view : context.in)
    if (!is_constant(*view, context.device) && is_cut(view->dtype, context.compute_dtype))
      return run_with_cut_operands(context, kernels, arity, functor);
  const Choice choice = choose(context, kernels);
  SmallVector<const View*, 9> views;
  views.push_back(&out);
  for (const View* view : context.in) views.push_back(view);
  const HostWalk walk = make_walk({views.data(), views.size()});
  switch (arity) {
    case 1:
      return launch<1>(context, walk, choice, functor);
    case 2:
      return launch<2>(context, walk, choice, functor);
    case 3:
      return launch<3>(context, walk, choice, functor);
    case 4:
      return launch<4>(context, walk, choice, functor);
    case 5:
      return launch<5>(context, walk, choice, functor);
    case 6:
      return launch<6>(context, walk, choice, functor);
    case 7:
      return launch<7>(context, walk, choice, functor);
    case 8:
      return launch<8>(context, walk, choice, functor);
    default:
      fail_internal(context.op, ": a pointwise op of ", arity, " operands");
  }
}

}  // namespace tensora::cuda
