#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tensora/backend/cpu/copy.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/optim/tile_list.h"
#include "tensora/ops/optim/update_rules.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class C, class Rule>
void step_tile(const Rule& rule, int states, int64_t n, C inverse_scale, C* param, const C* grad,
               C (&state)[3][kTile]) {
  const Rule local = rule;
  for (int k = states; k < 3; ++k) std::fill_n(state[k], n, C(0));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    C each[3] = {state[0][i], state[1][i], state[2][i]};
    param[i] = local(param[i], grad[i] * inverse_scale, each);
    state[0][i] = each[0];
    state[1][i] = each[1];
    state[2][i] = each[2];
  }
}

template <class C, class Rule>
void step_tensors(const KernelContext& context, const ListLayout& layout, const Rule& rule,
                  const std::vector<int64_t>& numbers) {
  const C inverse_scale =
      layout.scaled ? C(1) / static_cast<C>(*context.input(layout.scale()).as<const float>())
                    : C(1);
  std::vector<int64_t> sizes;
  for (int64_t i : numbers) sizes.push_back(context.input(layout.param(i)).numel);
  TileList(sizes).each([&](size_t at, int64_t first, int64_t n, int64_t) {
    const int64_t i = numbers[at];
    C param[kTile], grad[kTile], state[3][kTile];
    const Column<C> params(context.output(layout.param(i)));
    const Column<C> from(layout.masters ? context.output(layout.master(i))
                                        : context.output(layout.param(i)));
    from.read(first, n, param);
    Column<C>(context.input(layout.grad(i))).read(first, n, grad);
    for (int k = 0; k < layout.states; ++k)
      Column<C>(context.output(layout.state(k, i))).read(first, n, state[k]);
    step_tile(rule, layout.states, n, inverse_scale, param, grad, state);
    for (int k = 0; k < layout.states; ++k)
      Column<C>(context.output(layout.state(k, i))).write(first, n, state[k]);
    if (layout.masters) from.write(first, n, param);
    params.write(first, n, param);
  });
}

// Parameters of float64 are stepped in float64, all others in float32.
template <class MakeRule>
void step_list(const KernelContext& context, const ListLayout& layout, const MakeRule& make_rule) {
  for (int64_t i = 0; i < layout.outputs(); ++i) {  // out of place: results begin as copies
    const auto slot = static_cast<size_t>(i);
    if (context.input(slot).data != context.output(slot).data)
      copy_elements(context.input(slot), context.output(slot));
  }
  if (layout.guarded && *context.input(layout.found_inf()).as<const float>() != 0) return;
  std::vector<int64_t> floats, doubles;
  for (int64_t i = 0; i < layout.count; ++i)
    (context.input(layout.param(i)).dtype == kFloat64 ? doubles : floats).push_back(i);
  step_tensors<float>(context, layout, make_rule.template operator()<float>(), floats);
  step_tensors<double>(context, layout, make_rule.template operator()<double>(), doubles);
}

void adam_list_kernel(const KernelContext& context, const AdamListAttrs& a) {
  const double step = a.layout.counted ? double{*context.input(a.layout.step()).as<const float>()}
                                       : static_cast<double>(a.step);
  step_list(context, a.layout, [&]<class C>() {
    return AdamRule<C>{C(a.beta1),
                       C(a.beta2),
                       C(a.lr),
                       C(a.eps),
                       C(a.decoupled ? 0 : a.weight_decay),
                       C(a.decoupled ? 1 - a.lr * a.weight_decay : 1),
                       C(a.maximize ? -1 : 1),
                       C(a.lr / (1 - std::pow(a.beta1, step))),
                       C(1 / std::sqrt(1 - std::pow(a.beta2, step))),
                       a.amsgrad};
  });
}

void sgd_list_kernel(const KernelContext& context, const SgdListAttrs& a) {
  step_list(context, a.layout, [&]<class C>() {
    return SgdRule<C>{
        C(a.lr),    C(a.momentum), C(1 - a.dampening), C(a.weight_decay), C(a.maximize ? -1 : 1),
        a.nesterov, a.first};
  });
}

// ---- norms and clipping -------------------------------------------------------------------------

// The part of a norm that a tile contributes: a sum of powers, or an extremum.
template <class C>
double tile_norm(const C* values, int64_t n, double p) {
  if (p == 2 || p == 1) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      const auto x = static_cast<double>(values[i]);
      sum += p == 2 ? x * x : std::abs(x);
    }
    return sum;
  }
  if (std::isinf(p)) {
    double result = p > 0 ? 0 : std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < n; ++i) {
      const double x = std::abs(static_cast<double>(values[i]));
      const bool replaces = p > 0 ? x > result : x < result;
      result = replaces || x != x || result != result ? (result != result ? result : x) : result;
    }
    return result;
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = std::abs(static_cast<double>(values[i]));
    sum += p == 0 ? static_cast<double>(x != 0) : std::pow(x, p);
  }
  return sum;
}

double joined_norm(const std::vector<double>& parts, double p) {
  double result = std::isinf(p) && p < 0 ? std::numeric_limits<double>::infinity() : 0;
  for (double part : parts) {
    if (!std::isinf(p))
      result += part;
    else if (part != part || result != result)
      result = std::numeric_limits<double>::quiet_NaN();
    else
      result = p > 0 ? std::max(result, part) : std::min(result, part);
  }
  if (std::isinf(p) || p == 0) return result;
  return p == 2 ? std::sqrt(result) : std::pow(result, 1 / p);
}

// Views with gaps are copied: memory order is enough for everything else.
class DenseList {
 public:
  explicit DenseList(std::span<const View* const> views) {
    copies_.reserve(views.size());
    for (const View* view : views) {
      if (is_dense(view->sizes, view->strides)) {
        views_.push_back(*view);
        continue;
      }
      std::vector<char>& memory = copies_.emplace_back(view->bytes());
      View packed = *view;
      packed.data = memory.data();
      packed.strides = contiguous_strides(view->sizes);
      packed.update();
      copy_elements(*view, packed);
      views_.push_back(packed);
    }
    for (const View& view : views_) sizes_.push_back(view.numel);
  }
  const View& operator[](size_t i) const { return views_[i]; }
  std::span<const int64_t> sizes() const { return sizes_; }

 private:
  std::vector<std::vector<char>> copies_;
  std::vector<View> views_;
  std::vector<int64_t> sizes_;
};

void list_norm_kernel(const KernelContext& context, const ListNormAttrs& attrs) {
  const DenseList list(context.in);
  const TileList tiles(list.sizes());
  std::vector<double> parts(static_cast<size_t>(tiles.tiles()));
  tiles.each([&](size_t at, int64_t first, int64_t n, int64_t tile) {
    double values[kTile];
    Column<double>(list[at]).read(first, n, values);
    parts[static_cast<size_t>(tile)] = tile_norm(values, n, attrs.p);
  });
  const double result = joined_norm(parts, attrs.p);
  store_fn<double>(context.output().dtype)(&result, context.output().data, 1, 1);
}

template <class C>
void clip_tile(C* values, int64_t n, C factor, C limit, bool by_norm) {
  if (by_norm) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) values[i] *= factor;
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const C low = values[i] < -limit ? -limit : values[i];
      values[i] = low > limit ? limit : low;
    }
  }
}

void list_clip_kernel(const KernelContext& context, const ListClipAttrs& attrs) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < context.out.size(); ++i) {
    if (context.input(i).data != context.output(i).data)
      copy_elements(context.input(i), context.output(i));
    sizes.push_back(context.output(i).numel);
  }
  double factor = 1;
  if (attrs.by_norm) {
    const View& norm = context.input(context.out.size());
    double total = 0;
    load_fn<double>(norm.dtype)(norm.data, 1, 1, &total);
    factor = attrs.limit / (total + 1e-6);
    if (factor >= 1) return;  // NaN goes on
  }
  TileList(sizes).each([&](size_t at, int64_t first, int64_t n, int64_t) {
    const View& view = context.output(at);
    const auto run = [&]<class C>() {
      C values[kTile];
      const Column<C> column(view);
      column.read(first, n, values);
      clip_tile(values, n, static_cast<C>(factor), static_cast<C>(attrs.limit), attrs.by_norm);
      column.write(first, n, values);
    };
    if (view.dtype == kFloat64)
      run.template operator()<double>();
    else
      run.template operator()<float>();
  });
}

}  // namespace

void register_multi_tensor_cpu() {
  adam_list_op.set_kernel(DeviceType::cpu, adam_list_kernel);
  sgd_list_op.set_kernel(DeviceType::cpu, sgd_list_kernel);
  list_norm_op.set_kernel(DeviceType::cpu, list_norm_kernel);
  list_clip_op.set_kernel(DeviceType::cpu, list_clip_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
