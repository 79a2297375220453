// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <algorithm>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/loss/multilabel_margin_op.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// One row: its scores, and its targets with how often each is listed.
template <class C>
struct Row {
  std::vector<C> x, others;  // others: 1 for classes that are no target, else 0
  std::vector<int64_t> listed, targets;

  explicit Row(int64_t classes)
      : x(static_cast<size_t>(classes)), others(x.size()), listed(x.size()) {}

  void read(const KernelContext& context, const View& input, const View& target, int64_t n) {
    const auto classes = static_cast<int64_t>(x.size());
    const auto at = [&](const View& view) {
      return view.as<const char>() +
             n * view.strides[0] * static_cast<int64_t>(element_size(view.dtype));
    };
    load_fn<C>(input.dtype)(at(input), input.strides[1], classes, x.data());
    load_fn<int64_t>(target.dtype)(at(target), target.strides[1], classes, listed.data());
    std::fill(others.begin(), others.end(), C(1));
    targets.clear();
    for (int64_t y : listed) {
      if (y == -1) break;
      check(y >= 0 && y < classes, context.op, ": target ", y, " is out of bounds for ", classes,
            " classes");
      targets.push_back(y);
      others[static_cast<size_t>(y)] = 0;
    }
  }
};

template <class C>
void forward(const KernelContext& context) {
  const View &input = context.input(0), &target = context.input(1);
  const int64_t classes = input.sizes[1];
  C* const out = context.output().as<C>();
  parallel_for(input.sizes[0], std::max<int64_t>(1, 4096 / std::max<int64_t>(1, classes)),
               [&](int64_t begin, int64_t end) {
                 Row<C> row(classes);
                 for (int64_t n = begin; n < end; ++n) {
                   row.read(context, input, target, n);
                   double total = 0;
                   for (int64_t y : row.targets) {
                     const C base = 1 - row.x[static_cast<size_t>(y)];
                     const C *const x = row.x.data(), *const others = row.others.data();
                     C sum = 0;
#pragma omp simd reduction(+ : sum)
                     for (int64_t i = 0; i < classes; ++i) {
                       const C excess = base + x[i];
                       sum += (excess > 0 || excess != excess ? excess : C(0)) * others[i];
                     }
                     total += static_cast<double>(sum);
                   }
                   out[n] = static_cast<C>(total / static_cast<double>(classes));
                 }
               });
}

template <class C>
void backward(const KernelContext& context) {
  const View &grad = context.input(0), &input = context.input(1), &target = context.input(2);
  const View& out = context.output();
  const int64_t classes = input.sizes[1];
  const StoreFn store = store_fn<C>(out.dtype);
  const auto bytes = static_cast<int64_t>(element_size(out.dtype));
  parallel_for(input.sizes[0], std::max<int64_t>(1, 4096 / std::max<int64_t>(1, classes)),
               [&](int64_t begin, int64_t end) {
                 Row<C> row(classes);
                 std::vector<C> slopes(row.x.size());
                 for (int64_t n = begin; n < end; ++n) {
                   row.read(context, input, target, n);
                   std::fill(slopes.begin(), slopes.end(), C(0));
                   const C *const x = row.x.data(), *const others = row.others.data();
                   C* const to = slopes.data();
                   for (int64_t y : row.targets) {
                     const C base = 1 - x[y];
                     C active = 0;
#pragma omp simd reduction(+ : active)
                     for (int64_t i = 0; i < classes; ++i) {
                       const C one = base + x[i] > 0 ? others[i] : C(0);
                       to[i] += one;
                       active += one;
                     }
                     to[y] -= active;
                   }
                   const C factor =
                       grad.as<const C>()[n * grad.strides[0]] / static_cast<C>(classes);
                   for (C& slope : slopes) slope *= factor;
                   store(to, out.as<char>() + n * classes * bytes, 1, classes);
                 }
               });
}

void forward_kernel(const KernelContext& context, const NoAttrs&) {
  context.output().dtype == kFloat64 ? forward<double>(context) : forward<float>(context);
}
void backward_kernel(const KernelContext& context, const NoAttrs&) {
  context.output().dtype == kFloat64 ? backward<double>(context) : backward<float>(context);
}

}  // namespace

void register_multilabel_margin_cpu() {
  multilabel_margin_op.set_kernel(DeviceType::cpu, forward_kernel);
  multilabel_margin_backward_op.set_kernel(DeviceType::cpu, backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
