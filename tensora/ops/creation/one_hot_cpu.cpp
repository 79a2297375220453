#include <algorithm>
#include <cstring>

#include "tensora/backend/cpu/generate.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/creation/one_hot.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

void one_hot_kernel(const KernelContext& context, const OneHotAttrs& attrs) {
  const View &classes = context.input(0), &out = context.output();
  const int64_t width = attrs.num_classes;
  const LoadFn load = load_fn<int64_t>(kInt64);
  parallel_for(classes.numel, std::max<int64_t>(1, 16 * 1024 / std::max<int64_t>(width, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   int64_t place = 0;
                   gather_rows(classes, load, i, 1, &place, sizeof place);
                   check(place >= 0 && place < width, "one_hot: class ", place,
                         " is out of range for num_classes ", width);
                   int64_t* const row = out.as<int64_t>() + i * width;
                   std::memset(row, 0, static_cast<size_t>(width) * sizeof(int64_t));
                   row[place] = 1;
                 }
               });
}

}  // namespace

void register_one_hot_cpu() { one_hot_op.set_kernel(DeviceType::cpu, one_hot_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
