// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <atomic>
#include <cmath>

#include "tensora/backend/cpu/copy.h"
#include "tensora/ops/optim/grad_scale_op.h"
#include "tensora/ops/optim/tile_list.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Whether all values are finite; multiplies them by `factor`.
template <class C>
bool scale_tile(C* values, int64_t n, C factor) {
  int infinite = 0;
#pragma omp simd reduction(| : infinite)
  for (int64_t i = 0; i < n; ++i) {
    infinite |= values[i] - values[i] != C(0);  // NaN for infinities too
    values[i] *= factor;
  }
  return infinite == 0;
}

void list_unscale_kernel(const KernelContext& context, const ListUnscaleAttrs& attrs) {
  for (size_t i = 0; i < context.out.size(); ++i)  // out of place: results begin as copies
    if (context.input(i).data != context.output(i).data)
      copy_elements(context.input(i), context.output(i));
  const size_t count = context.in.size() - (attrs.check_only ? 1 : 2);
  const float factor = attrs.check_only ? 1.0F : *context.input(count + 1).as<const float>();
  std::vector<int64_t> sizes;
  for (size_t i = 1; i <= count; ++i) sizes.push_back(context.input(i).numel);
  std::atomic<bool> finite{true};
  TileList(sizes).each([&](size_t at, int64_t first, int64_t n, int64_t) {
    const View& view = attrs.check_only ? context.input(at + 1) : context.output(at + 1);
    const auto run = [&]<class C>() {
      C values[kTile];
      const Column<C> column(view);
      column.read(first, n, values);
      if (!scale_tile(values, n, static_cast<C>(factor)))
        finite.store(false, std::memory_order_relaxed);
      if (factor != 1.0F) column.write(first, n, values);
    };
    if (view.dtype == kFloat64)
      run.template operator()<double>();
    else
      run.template operator()<float>();
  });
  if (!finite) *context.output(0).as<float>() = 1;
}

void update_scale_kernel(const KernelContext& context, const UpdateScaleAttrs& attrs) {
  const float scale = *context.input(0).as<const float>();
  const int64_t successes = int64_t{*context.input(1).as<const int32_t>()} + 1;
  float& new_scale = *context.output(0).as<float>();
  int32_t& tracker = *context.output(1).as<int32_t>();
  const bool infinite = *context.input(2).as<const float>() != 0;
  const bool due = !infinite && successes == attrs.growth_interval;
  const double factor = infinite ? attrs.backoff_factor : due ? attrs.growth_factor : 1;
  const auto wanted = static_cast<float>(scale * factor);
  new_scale = due && !std::isfinite(wanted) ? scale : wanted;
  tracker = infinite || due ? 0 : static_cast<int32_t>(successes);
}

}  // namespace

void register_grad_scale_cpu() {
  list_unscale_op.set_kernel(DeviceType::cpu, list_unscale_kernel);
  update_scale_op.set_kernel(DeviceType::cpu, update_scale_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
