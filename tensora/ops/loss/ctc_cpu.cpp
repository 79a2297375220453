#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tensora/base/thread_pool.h"
#include "tensora/ops/loss/ctc_op.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class C>
constexpr C kNever = -std::numeric_limits<C>::infinity();

template <class C>
C log_sum(C a, C b) {
  const C top = std::max(a, b);
  return top == kNever<C> ? top : std::log1p(std::exp(std::min(a, b) - top)) + top;
}
template <class C>
C log_sum(C a, C b, C c) {
  const C top = std::max(a, std::max(b, c));
  if (top == kNever<C>) return top;
  return std::log(std::exp(a - top) + std::exp(b - top) + std::exp(c - top)) + top;
}

// One sequence of the batch; see Note [Alignments].
template <class C>
struct Sequence {
  const C* x;
  int64_t time_step, class_step;
  int64_t times, places, width;  // width: of a row of alpha
  std::vector<int64_t> labels;   // of the places

  Sequence(const KernelContext& context, const View& log_probs, const View& targets,
           const CtcAttrs& attrs, int64_t n)
      : x(log_probs.as<const C>() + n * log_probs.strides[1]),
        time_step(log_probs.strides[0]),
        class_step(log_probs.strides[2]),
        times(attrs.input_lengths[static_cast<size_t>(n)]),
        places(2 * attrs.target_lengths[static_cast<size_t>(n)] + 1),
        width(2 * targets.sizes[1] + 1),
        labels(static_cast<size_t>(places), attrs.blank) {
    for (int64_t s = 1; s < places; s += 2) {
      const int64_t label =
          targets.as<const int64_t>()[n * targets.strides[0] + s / 2 * targets.strides[1]];
      check(label >= 0 && label < log_probs.sizes[2], context.op, ": target ", label,
            " is out of bounds for ", log_probs.sizes[2], " classes");
      labels[static_cast<size_t>(s)] = label;
    }
  }
  int64_t label(int64_t s) const { return labels[static_cast<size_t>(s)]; }
  C output(int64_t t, int64_t s) const { return x[t * time_step + label(s) * class_step]; }
  // Whether place s can be reached from s - 2.
  bool skips(int64_t s) const { return s % 2 == 1 && s >= 3 && label(s) != label(s - 2); }

  // Returns the logarithm of the probability of all alignments.
  C forward(C* alpha) const {
    for (int64_t t = 0; t < times; ++t) {
      C* const row = alpha + t * width;
      const C* const before = row - width;
      for (int64_t s = 0; s < places; ++s) {
        if (t == 0) {
          row[s] = s <= 1 ? output(0, s) : kNever<C>;
          continue;
        }
        const C on = s >= 1 ? before[s - 1] : kNever<C>;
        const C over = skips(s) ? before[s - 2] : kNever<C>;
        row[s] = log_sum(before[s], on, over) + output(t, s);
      }
    }
    if (times == 0) return places == 1 ? C(0) : kNever<C>;
    const C* const row = alpha + (times - 1) * width;
    return places == 1 ? row[0] : log_sum(row[places - 1], row[places - 2]);
  }

  // Calls use(t, beta) from the last time to the first.
  template <class Use>
  void backward(const Use& use) const {
    std::vector<C> beta(static_cast<size_t>(places) + 2, kNever<C>), fresh = beta;
    for (int64_t t = times - 1; t >= 0; --t) {
      for (int64_t s = 0; s < places; ++s) {
        const auto at = static_cast<size_t>(s);
        if (t == times - 1) {
          fresh[at] = s >= places - 2 ? output(t, s) : kNever<C>;
          continue;
        }
        const C over = s + 2 < places && skips(s + 2) ? beta[at + 2] : kNever<C>;
        fresh[at] = log_sum(beta[at], beta[at + 1], over) + output(t, s);
      }
      std::swap(beta, fresh);
      use(t, beta.data());
    }
  }
};

template <class C>
void forward(const KernelContext& context, const CtcAttrs& attrs) {
  const View &x = context.input(0), &targets = context.input(1);
  const View& alphas = context.output(1);
  C* const losses = context.output(0).as<C>();
  parallel_for(x.sizes[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t size = alphas.sizes[1] * alphas.sizes[2];
      C* const alpha = alphas.as<C>() + n * size;
      std::fill_n(alpha, size, kNever<C>);
      losses[n] = -Sequence<C>(context, x, targets, attrs, n).forward(alpha);
    }
  });
}

// The outputs of one time, of which `counted` gets the share of each class in all alignments.
template <class C>
void add_shares(const Sequence<C>& sequence, int64_t t, const C* alpha, const C* beta, C loss,
                std::vector<C>& counted) {
  for (int64_t s = 0; s < sequence.places; ++s) {
    const C both = alpha[t * sequence.width + s] + beta[s];
    if (both == kNever<C> && loss != -kNever<C>) continue;
    counted[static_cast<size_t>(sequence.label(s))] +=
        std::exp(both + loss - sequence.output(t, s));
  }
}

template <class C>
void backward(const KernelContext& context, const CtcAttrs& attrs) {
  const View &grad = context.input(0), &x = context.input(1), &targets = context.input(2);
  const View &losses = context.input(3), &alphas = context.input(4), &out = context.output();
  const int64_t classes = x.sizes[2], row = x.sizes[1] * classes;
  parallel_for(x.sizes[1], 1, [&](int64_t begin, int64_t end) {
    std::vector<C> counted(static_cast<size_t>(classes));
    for (int64_t n = begin; n < end; ++n) {
      const Sequence<C> sequence(context, x, targets, attrs, n);
      C* const to = out.as<C>() + n * classes;
      const C loss = losses.as<const C>()[n * losses.strides[0]];
      const C factor = grad.as<const C>()[n * grad.strides[0]];
      const bool nothing = attrs.zero_infinity && loss == -kNever<C>;
      for (int64_t t = nothing ? 0 : sequence.times; t < x.sizes[0]; ++t)
        std::fill_n(to + t * row, classes, C(0));
      if (nothing) continue;
      const C* const alpha = alphas.as<const C>() + n * alphas.sizes[1] * alphas.sizes[2];
      sequence.backward([&](int64_t t, const C* beta) {
        std::fill(counted.begin(), counted.end(), C(0));
        add_shares(sequence, t, alpha, beta, loss, counted);
        const C* const from = sequence.x + t * sequence.time_step;
        for (int64_t c = 0; c < classes; ++c)
          to[t * row + c] =
              (std::exp(from[c * sequence.class_step]) - counted[static_cast<size_t>(c)]) * factor;
      });
    }
  });
}

void ctc_kernel(const KernelContext& context, const CtcAttrs& attrs) {
  if (context.output().dtype == kFloat64)
    forward<double>(context, attrs);
  else
    forward<float>(context, attrs);
}

void ctc_backward_kernel(const KernelContext& context, const CtcAttrs& attrs) {
  if (context.output().dtype == kFloat64)
    backward<double>(context, attrs);
  else
    backward<float>(context, attrs);
}

}  // namespace

void register_ctc_cpu() {
  ctc_op.set_kernel(DeviceType::cpu, ctc_kernel);
  ctc_backward_op.set_kernel(DeviceType::cpu, ctc_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
