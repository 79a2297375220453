// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/quant/quant_embedding_op.h"
#include "tensora/ops/quant/quant_rows.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

void quant_embedding_kernel(const KernelContext& context, const QuantEmbeddingAttrs& attrs) {
  const View &indices = context.input(0), &weight = context.input(1), &out = context.output();
  if (out.numel == 0) return;
  const float* scales = context.in.size() > 2 ? context.input(2).as<const float>() : nullptr;
  const WeightRows w = weight_rows(weight);
  void (*read)(const uint8_t* row, int64_t begin, int64_t count, float* to) = nullptr;
  visit_reader(weight.dtype, [&]<class Reader>() { read = read_numbers<Reader>; });
  const StoreFn store = store_fn<float>(out.dtype);
  const auto factor = static_cast<float>(attrs.factor);
  parallel_for(indices.numel, 4, [&](int64_t begin, int64_t end) {
    const HostScratch<float> numbers((w.columns + 15) / 16 * 16);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = indices.as<const int64_t>()[t];
      check(row >= 0 && row < w.rows, context.op, ": index ", row, " is not among ", w.rows,
            " rows");
      read(w.data + row * w.row_bytes, 0, w.columns, numbers.data());
      const float scale = scales ? factor * scales[row] : factor;
      if (scale != 1)
        for (int64_t i = 0; i < w.columns; ++i) numbers.data()[i] *= scale;
      store(numbers.data(),
            out.as<char>() + t * w.columns * static_cast<int64_t>(element_size(out.dtype)), 1,
            w.columns);
    }
  });
}

}  // namespace

void register_quant_embedding_cpu() {
  quant_embedding_op.set_kernel(DeviceType::cpu, quant_embedding_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
