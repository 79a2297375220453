// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <cmath>
#include <cstring>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/paged/paged_store_op.h"
#include "tensora/ops/quant/q8_0.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

using A = PagedStoreAttrs;

void store_blocks(const void* from, void* to, int64_t, int64_t n) {
  for (int64_t b = 0; b < n / BlockQ8_0::kNumbers; ++b)
    static_cast<BlockQ8_0*>(to)[b].encode(static_cast<const float*>(from) +
                                          b * BlockQ8_0::kNumbers);
}
StoreFn cache_store(DType dtype) { return dtype == kQ8_0 ? store_blocks : store_fn<float>(dtype); }

class TokenWriter {
 public:
  TokenWriter(const KernelContext& context, const A& attrs)
      : context_(context),
        attrs_(attrs),
        size_(context.output(A::kKeys).sizes[3]),
        half_(context.input(A::kCosSin).sizes[1] / 2),
        factors_(2 * size_),
        load_(load_fn<float>(context.input(A::kQkv).dtype)),
        store_query_(store_fn<float>(context.output(A::kQuery).dtype)),
        store_cache_(cache_store(context.output(A::kKeys).dtype)) {
    for (size_t i = 0; i < 2; ++i) {
      const size_t at = A::kQNorm + i;
      if (at >= context.in.size() || !context.in[at]) continue;
      float* to = factors_.data() + static_cast<int64_t>(i) * size_;
      load_fn<float>(context.input(at).dtype)(context.input(at).data, 1, size_, to);
      for (int64_t d = 0; attrs.unit_offset && d < size_; ++d) to[d] += 1;
      norms_[i] = to;
    }
  }

  void write(int64_t token) const {
    const View &qkv = context_.input(A::kQkv), &keys = context_.output(A::kKeys),
               &table = context_.input(A::kCosSin);
    const int64_t position = context_.input(A::kPositions).as<const int64_t>()[token];
    check(position >= 0 && position < table.sizes[0], context_.op, ": position ", position,
          " of token ", token, " is not in a table of ", table.sizes[0]);
    const int64_t slot = context_.input(A::kSlots).as<const int64_t>()[token];
    const int64_t places = keys.sizes[0] * keys.sizes[2];
    check(slot >= -1 && slot < places, context_.op, ": slot ", slot, " of token ", token,
          " is not in a cache of ", places, " places");
    const float* angles = table.as<const float>() + position * 2 * half_;
    const HostScratch<float> head(size_);
    const int64_t all = attrs_.heads + 2 * attrs_.kv_heads;
    for (int64_t h = 0; h < all; ++h) {
      const bool is_query = h < attrs_.heads, is_value = h >= attrs_.heads + attrs_.kv_heads;
      if (!is_query && slot < 0) break;
      load_(address(qkv, (token * all + h) * size_), 1, size_, head.data());
      if (!is_value) {
        if (const float* factors = norms_[is_query ? 0 : 1]) normalise(head.data(), factors);
        turn(head.data(), angles);
      }
      if (is_query)
        store_query_(head.data(),
                     address(context_.output(A::kQuery), (token * attrs_.heads + h) * size_), 1,
                     size_);
      else
        store_cache_(head.data(),
                     place(context_.output(is_value ? A::kValues : A::kKeys), slot,
                           h - attrs_.heads - (is_value ? attrs_.kv_heads : 0)),
                     1, size_);
    }
  }

 private:
  static char* address(const View& view, int64_t number) {
    return view.as<char>() + bytes_of(view.dtype, number);
  }
  char* place(const View& cache, int64_t slot, int64_t head) const {
    const int64_t block_size = cache.sizes[2];
    const int64_t row = (slot / block_size * attrs_.kv_heads + head) * block_size;
    return address(cache, (row + slot % block_size) * size_);
  }

  void normalise(float* head, const float* factors) const {
    float square = 0;
#pragma omp simd reduction(+ : square)
    for (int64_t d = 0; d < size_; ++d) square += head[d] * head[d];
    const float mean = square / static_cast<float>(size_);
    const float scale = 1 / std::sqrt(mean + static_cast<float>(attrs_.eps));
#pragma omp simd
    for (int64_t d = 0; d < size_; ++d) head[d] = head[d] * scale * factors[d];
  }

  void turn(float* head, const float* angles) const {
    const float *cos = angles, *sin = angles + half_;
    const int64_t apart = attrs_.in_halves ? half_ : 1, step = attrs_.in_halves ? 1 : 2;
#pragma omp simd
    for (int64_t i = 0; i < half_; ++i) {
      const float a = head[i * step], b = head[i * step + apart];
      head[i * step] = a * cos[i] - b * sin[i];
      head[i * step + apart] = b * cos[i] + a * sin[i];
    }
  }

  const KernelContext& context_;
  const A& attrs_;
  const int64_t size_, half_;
  const HostScratch<float> factors_;
  const float* norms_[2] = {};
  const LoadFn load_;
  const StoreFn store_query_, store_cache_;
};

void paged_store_kernel(const KernelContext& context, const A& attrs) {
  for (size_t i : {A::kKeys, A::kValues})
    if (const View &from = context.input(i), &to = context.output(i);
        from.data != to.data && from.numel > 0)
      std::memcpy(to.data, from.data, from.bytes());
  const TokenWriter writer(context, attrs);
  parallel_for(context.input(A::kQkv).sizes[0], 4, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) writer.write(t);
  });
}

}  // namespace

void register_paged_store_cpu() { paged_store_op.set_kernel(DeviceType::cpu, paged_store_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
