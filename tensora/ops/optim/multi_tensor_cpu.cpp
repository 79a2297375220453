// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <cmath>
#include <limits>

#include "tensora/ops/optim/list_step.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

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
  adam_list_op.set_kernel(DeviceType::cpu, step_list<AdamRule, AdamListAttrs>);
  sgd_list_op.set_kernel(DeviceType::cpu, step_list<SgdRule, SgdListAttrs>);
  list_norm_op.set_kernel(DeviceType::cpu, list_norm_kernel);
  list_clip_op.set_kernel(DeviceType::cpu, list_clip_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
