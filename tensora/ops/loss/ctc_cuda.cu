#include <algorithm>

#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/loss/ctc_op.h"

// See Note [Alignments]. A block takes a sequence, its threads the places; they meet after each
// time.

namespace tensora::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kSequences = 256;  // of one launch: their lengths are parameters of the kernel

struct CtcParams {
  const char *x, *targets;
  long long time_step, batch_step, class_step;  // of log_probs, in elements
  long long target_batch_step, target_step;
  long long times, classes, batch, width;  // times: of the longest; width: of a row of alpha
  long long first;                         // the first sequence of this launch
  long long blank;
  char *losses, *alpha;
  int input_lengths[kSequences], target_lengths[kSequences];
  const char* op;
  Fault* fault;
};

struct BackwardParams {
  CtcParams ctc;
  const char* grad;
  long long grad_step;
  char* out;    // [T, N, C]
  char* beta;   // [N, 3, width]: two rows of beta, and the shares of the places
  int* chains;  // [N, width]: the next place with the same label, -1: none; less 2 if not the first
  bool zero_infinity;
};

template <class C>
__device__ inline C never() {
  return C(-__builtin_huge_val());
}
template <class C>
__device__ inline C log_sum(C a, C b, C c) {
  const C top = max(a, max(b, c));
  return top == never<C>() ? top : log(exp(a - top) + exp(b - top) + exp(c - top)) + top;
}

// One sequence.
template <class C>
struct Sequence {
  const CtcParams& params;
  const C* x;
  const long long* targets;
  long long number;
  int times, places;

  __device__ explicit Sequence(const CtcParams& given)
      : params(given),
        number(given.first + blockIdx.x),
        times(given.input_lengths[blockIdx.x]),
        places(2 * given.target_lengths[blockIdx.x] + 1) {
    x = reinterpret_cast<const C*>(given.x) + number * given.batch_step;
    targets = reinterpret_cast<const long long*>(given.targets) + number * given.target_batch_step;
  }
  __device__ long long label(int s) const {
    if (s % 2 == 0) return params.blank;
    const long long y = targets[s / 2 * params.target_step];
    return y >= 0 && y < params.classes ? y : params.blank;
  }
  __device__ C output(int t, int s) const {
    return x[t * params.time_step + label(s) * params.class_step];
  }
  // Whether place s can be reached from s - 2.
  __device__ bool skips(int s) const { return s % 2 == 1 && s >= 3 && label(s) != label(s - 2); }
  __device__ C* alpha(long long t) const {
    return reinterpret_cast<C*>(params.alpha) + (number * params.times + t) * params.width;
  }
  __device__ void check_targets() const {
    for (int s = 1 + 2 * static_cast<int>(threadIdx.x); s < places; s += 2 * kBlock) {
      const long long y = targets[s / 2 * params.target_step];
      if (y < 0 || y >= params.classes)
        note_fault(params.fault, params.op, nullptr, y, params.classes, 2);
    }
  }
};

template <class C>
__global__ void __launch_bounds__(kBlock) forward(const __grid_constant__ CtcParams params) {
  const Sequence<C> sequence(params);
  sequence.check_targets();
  for (int t = 0; t < params.times; ++t) {
    C* const row = sequence.alpha(t);
    const C* const before = row - params.width;
    for (int s = threadIdx.x; s < params.width; s += kBlock) {
      C value = never<C>();
      if (t < sequence.times && s < sequence.places) {
        if (t == 0) {
          if (s <= 1) value = sequence.output(0, s);
        } else {
          const C on = s >= 1 ? before[s - 1] : never<C>();
          const C over = sequence.skips(s) ? before[s - 2] : never<C>();
          value = log_sum(before[s], on, over) + sequence.output(t, s);
        }
      }
      row[s] = value;
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  C result = sequence.places == 1 ? C(0) : never<C>();
  if (sequence.times > 0) {
    const C* const row = sequence.alpha(sequence.times - 1);
    const C label = sequence.places > 1 ? row[sequence.places - 2] : never<C>();
    result = log_sum(row[sequence.places - 1], label, never<C>());
  }
  reinterpret_cast<C*>(params.losses)[sequence.number] = -result;
}

// Which places have the same label. Places of blanks are summed by a warp of their own.
template <class C>
__device__ inline void link_labels(const Sequence<C>& sequence, int* chains) {
  for (int s = threadIdx.x; s < sequence.places; s += kBlock) {
    const long long label = sequence.label(s);
    int next = -1;
    bool is_first = true;
    if (label != sequence.params.blank) {
      for (int other = 1; other < s && is_first; other += 2)
        is_first = sequence.label(other) != label;
      for (int other = s + 2; other < sequence.places && next < 0; other += 2)
        if (sequence.label(other) == label) next = other;
    }
    chains[s] = is_first ? next : -2 - (next + 1);
  }
}
__device__ inline bool is_first(int chain) { return chain >= -1; }
__device__ inline int next_of(int chain) { return chain >= -1 ? chain : -chain - 3; }

// Takes the shares of all places off the outputs of one time, label by label in a fixed order.
template <class C>
__device__ inline void subtract(const Sequence<C>& sequence, const C* shares, const int* chains,
                                C factor, C* out) {
  if (threadIdx.x < 32) {
    C sum = 0;
    for (int s = threadIdx.x; s < sequence.places; s += 32)
      if (sequence.label(s) == sequence.params.blank) sum += shares[s];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(kWholeWarp, sum, distance);
    if (threadIdx.x == 0) out[sequence.params.blank] -= sum * factor;
  }
  for (int s = 1 + 2 * static_cast<int>(threadIdx.x); s < sequence.places; s += 2 * kBlock) {
    const long long label = sequence.label(s);
    if (label == sequence.params.blank || !is_first(chains[s])) continue;
    C sum = 0;
    for (int at = s; at >= 0; at = next_of(chains[at])) sum += shares[at];
    out[label] -= sum * factor;
  }
}

template <class C>
__global__ void __launch_bounds__(kBlock) backward(const __grid_constant__ BackwardParams params) {
  const CtcParams& ctc = params.ctc;
  const Sequence<C> sequence(ctc);
  const long long n = sequence.number;
  const C factor = reinterpret_cast<const C*>(params.grad)[n * params.grad_step];
  const C loss = reinterpret_cast<const C*>(ctc.losses)[n];
  const bool nothing = params.zero_infinity && loss == -never<C>();
  C* const rows = reinterpret_cast<C*>(params.beta) + n * 3 * ctc.width;
  C* const shares = rows + 2 * ctc.width;
  int* const chains = params.chains + n * ctc.width;
  link_labels(sequence, chains);
  for (int t = static_cast<int>(ctc.times) - 1; t >= 0; --t) {
    C* const out = reinterpret_cast<C*>(params.out) + (t * ctc.batch + n) * ctc.classes;
    const bool counts = !nothing && t < sequence.times;
    for (long long c = threadIdx.x; c < ctc.classes; c += kBlock)
      out[c] = counts ? exp(sequence.x[t * ctc.time_step + c * ctc.class_step]) * factor : C(0);
    if (!counts) continue;  // the same for all threads
    C* const beta = rows + t % 2 * ctc.width;
    const C* const after = rows + (t + 1) % 2 * ctc.width;
    for (int s = threadIdx.x; s < sequence.places; s += kBlock) {
      C value = never<C>();
      if (t == sequence.times - 1) {
        if (s >= sequence.places - 2) value = sequence.output(t, s);
      } else {
        const C on = s + 1 < sequence.places ? after[s + 1] : never<C>();
        const C over = s + 2 < sequence.places && sequence.skips(s + 2) ? after[s + 2] : never<C>();
        value = log_sum(after[s], on, over) + sequence.output(t, s);
      }
      beta[s] = value;
      const C both = sequence.alpha(t)[s] + value;
      shares[s] = both == never<C>() && loss != -never<C>()
                      ? C(0)
                      : exp(both + loss - sequence.output(t, s));
    }
    __syncthreads();
    subtract(sequence, shares, chains, factor, out);
    __syncthreads();
  }
}

CtcParams params_of(const KernelContext& context, const View& x, const View& targets,
                    const CtcAttrs& attrs) {
  CtcParams params{};
  params.x = x.as<const char>();
  params.targets = targets.as<const char>();
  params.time_step = x.strides[0];
  params.batch_step = x.strides[1];
  params.class_step = x.strides[2];
  params.target_batch_step = targets.strides[0];
  params.target_step = targets.strides[1];
  params.times = x.sizes[0];
  params.batch = x.sizes[1];
  params.classes = x.sizes[2];
  params.width = 2 * targets.sizes[1] + 1;
  params.blank = attrs.blank;
  params.op = context.op.data();
  params.fault = device_fault(context.device.index);
  check(params.times < int64_t{1} << 31 && params.width < int64_t{1} << 31, context.op,
        ": sequences of 2^31 elements are not supported on cuda");
  return params;
}

// Calls run(blocks) for each part of the batch, whose lengths are then in `params`.
template <class Run>
void each_part(CtcParams& params, const CtcAttrs& attrs, const Run& run) {
  for (params.first = 0; params.first < params.batch; params.first += kSequences) {
    const auto count = static_cast<int>(std::min<int64_t>(kSequences, params.batch - params.first));
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(params.first + i);
      params.input_lengths[i] = static_cast<int>(attrs.input_lengths[at]);
      params.target_lengths[i] = static_cast<int>(attrs.target_lengths[at]);
    }
    run(dim3(static_cast<unsigned>(count)));
  }
}

void ctc_kernel(const KernelContext& context, const CtcAttrs& attrs) {
  CtcParams params = params_of(context, context.input(0), context.input(1), attrs);
  params.losses = context.output(0).as<char>();
  params.alpha = context.output(1).as<char>();
  const bool wide = context.output().dtype == kFloat64;
  each_part(params, attrs, [&](dim3 blocks) {
    Launch{context.op, context.device.index}(wide ? forward<double> : forward<float>, blocks,
                                             dim3(kBlock), params);
  });
}

void ctc_backward_kernel(const KernelContext& context, const CtcAttrs& attrs) {
  if (context.output().numel == 0) return;
  const int device = context.device.index;
  const Packed losses(context.op, device, context.input(3));
  const Packed alpha(context.op, device, context.input(4));
  BackwardParams params{};
  params.ctc = params_of(context, context.input(1), context.input(2), attrs);
  params.ctc.losses = losses.view().as<char>();
  params.ctc.alpha = alpha.view().as<char>();
  params.grad = context.input(0).as<const char>();
  params.grad_step = context.input(0).strides[0];
  params.out = context.output().as<char>();
  params.zero_infinity = attrs.zero_infinity;
  const bool wide = context.output().dtype == kFloat64;
  const auto cells = static_cast<size_t>(params.ctc.batch * params.ctc.width);
  const Scratch beta(device, cells * 3 * (wide ? 8 : 4)), chains(device, cells * sizeof(int));
  params.beta = beta.data();
  params.chains = reinterpret_cast<int*>(chains.data());
  each_part(params.ctc, attrs, [&](dim3 blocks) {
    Launch{context.op, device}(wide ? backward<double> : backward<float>, blocks, dim3(kBlock),
                               params);
  });
}

}  // namespace

void register_ctc_cuda() {
  ctc_op.set_kernel(DeviceType::cuda, ctc_kernel);
  ctc_backward_op.set_kernel(DeviceType::cuda, ctc_backward_kernel);
}

}  // namespace tensora::cuda
