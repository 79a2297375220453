// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <algorithm>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/norm/residual_norm_op.h"
#include "tensora/ops/norm/rms_row.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

char* address(const View& view, int64_t element) {
  return view.as<char>() + element * static_cast<int64_t>(element_size(view.dtype));
}

void residual_norm_kernel(const KernelContext& context, const ResidualNormAttrs& attrs) {
  const View &x = context.input(0), &out = context.output();
  const View* residual = context.in.size() > 2 ? context.in[2] : nullptr;
  if (out.numel == 0) return;
  const int64_t width = x.sizes.back(), rows = x.numel / width;
  const HostScratch<float> weight(width);
  load_fn<float>(context.input(1).dtype)(context.input(1).data, 1, width, weight.data());
  for (int64_t i = 0; attrs.unit_offset && i < width; ++i) weight.data()[i] += 1;
  const LoadFn load = load_fn<float>(x.dtype),
               load_residual = residual ? load_fn<float>(residual->dtype) : nullptr;
  const StoreFn store = store_fn<float>(out.dtype);
  const int64_t grain = std::max<int64_t>(1, (1 << 14) / width);
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    const HostScratch<float> scratch(2 * width);
    float *const added = scratch.data(), *const result = added + width;
    for (int64_t at = begin * width; at < end * width; at += width) {
      const float* sum = added;
      if (residual) {
        float* const to = context.output(1).as<float>() + at;
        load(address(x, at), 1, width, to);
        load_residual(address(*residual, at), 1, width, added);
        for (int64_t i = 0; i < width; ++i) to[i] += added[i];
        sum = to;
      } else if (x.dtype == kFloat32) {
        sum = x.as<const float>() + at;
      } else {
        load(address(x, at), 1, width, added);
      }
      float* const to = out.dtype == kFloat32 ? out.as<float>() + at : result;
      rms_row(sum, weight.data(), width, attrs.eps, to);
      if (to == result) store(result, address(out, at), 1, width);
    }
  });
}

}  // namespace

void register_residual_norm_cpu() {
  residual_norm_op.set_kernel(DeviceType::cpu, residual_norm_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
