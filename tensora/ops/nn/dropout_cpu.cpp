#include "tensora/ops/nn/dropout.h"

#include <algorithm>

#include "tensora/backend/cpu/generate.h"
#include "tensora/ops/random/random_tile.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kBlock = 4 * kRandomLanes;

// The four words of each counter, one counter after the other.
#if defined(__AVX512F__)
// By hand: a transposition of 4 x 4 words in each quarter of the registers, then one of the
// quarters.
inline void words_in_a_row(const unsigned (&words)[4][kRandomLanes], unsigned (&row)[kBlock]) {
  for (int lane = 0; lane < kRandomLanes; lane += 16) {
    const auto load = [&](int k) { return _mm512_loadu_si512(words[k] + lane); };
    constexpr __mmask16 kAll = 0xffff;  // GCC 12 warns of the unmasked forms
    constexpr __mmask8 kAllWide = 0xff;
    const __m512i a = load(0), b = load(1), c = load(2), d = load(3);
    const __m512i ab_low = _mm512_maskz_unpacklo_epi32(kAll, a, b);
    const __m512i ab_high = _mm512_maskz_unpackhi_epi32(kAll, a, b);
    const __m512i cd_low = _mm512_maskz_unpacklo_epi32(kAll, c, d);
    const __m512i cd_high = _mm512_maskz_unpackhi_epi32(kAll, c, d);
    // In quarter q: the words of counters 4 q, 4 q + 1, 4 q + 2, 4 q + 3.
    const __m512i first = _mm512_maskz_unpacklo_epi64(kAllWide, ab_low, cd_low);
    const __m512i second = _mm512_maskz_unpackhi_epi64(kAllWide, ab_low, cd_low);
    const __m512i third = _mm512_maskz_unpacklo_epi64(kAllWide, ab_high, cd_high);
    const __m512i fourth = _mm512_maskz_unpackhi_epi64(kAllWide, ab_high, cd_high);
    const auto quarters = [&]<int q>(std::integral_constant<int, q>) {
      constexpr int kBoth = q | q << 2 | q << 4 | q << 6;
      const __m512i left = _mm512_maskz_shuffle_i32x4(kAll, first, second, kBoth);
      const __m512i right = _mm512_maskz_shuffle_i32x4(kAll, third, fourth, kBoth);
      // Quarters 0 and 2 of both.
      _mm512_storeu_si512(row + 4 * lane + 16 * q,
                          _mm512_maskz_shuffle_i32x4(kAll, left, right, 0b10'00'10'00));
    };
    quarters(std::integral_constant<int, 0>());
    quarters(std::integral_constant<int, 1>());
    quarters(std::integral_constant<int, 2>());
    quarters(std::integral_constant<int, 3>());
  }
}
#else
inline void words_in_a_row(const unsigned (&words)[4][kRandomLanes], unsigned (&row)[kBlock]) {
  for (int lane = 0; lane < kRandomLanes; ++lane)
    for (int k = 0; k < 4; ++k) row[4 * lane + k] = words[k][lane];
}
#endif

// Calls body(word, j) for elements start + j, j < n; `start` is a multiple of four. See Note [Four
// in a row].
template <class Body>
void each_block(uint64_t seed, uint64_t offset, int64_t start, int64_t n, const Body& body) {
  unsigned words[4][kRandomLanes], row[kBlock];
  for (int64_t first = 0; first < n; first += kBlock) {
    philox_block(seed, offset + static_cast<uint64_t>(start + first) / 4, words);
    words_in_a_row(words, row);
    body(row, first, std::min(kBlock, n - first));
  }
}

template <class V>
struct Job {
  const View* self;
  const View* condition;
  LoadFn load;
};

template <class V>
struct DropoutJob : Job<V> {
  DropoutAttrs attrs;
};

template <class V>
void dropout_tile(const void* functor, int64_t start, int64_t n, void* to) {
  const auto& job = *static_cast<const DropoutJob<V>*>(functor);
  V* const y = static_cast<V*>(to);
  V x[kGenerateTile];
  gather_rows(*job.self, job.load, start, n, x, sizeof(V));
  const uint64_t limit = job.attrs.limit();
  const unsigned last = limit == 0 ? 0 : static_cast<unsigned>(limit - 1);
  const V scale = limit == 0 ? V(0) : static_cast<V>(job.attrs.scale);
  const V kept = static_cast<V>(limit == 0 ? job.attrs.dropped : job.attrs.kept);
  const V dropped = static_cast<V>(job.attrs.dropped);
  const bool shifts = job.attrs.shifts();
  each_block(job.attrs.seed, job.attrs.offset, start, n,
             [&](const unsigned* words, int64_t first, int64_t count) {
               const V* const from = x + first;
               V* const target = y + first;
               if (shifts) {
#pragma omp simd
                 for (int64_t j = 0; j < count; ++j)
                   target[j] = from[j] * (words[j] <= last ? scale : V(0)) +
                               (words[j] <= last ? kept : dropped);
                 return;
               }
#pragma omp simd
               for (int64_t j = 0; j < count; ++j)
                 target[j] = from[j] * (words[j] <= last ? scale : V(0));
             });
}

template <class V>
struct SlopeJob : Job<V> {
  LoadFn load_condition;
  RandomSlopeAttrs attrs;
};

template <class V>
void slope_tile(const void* functor, int64_t start, int64_t n, void* to) {
  const auto& job = *static_cast<const SlopeJob<V>*>(functor);
  V* const y = static_cast<V*>(to);
  V x[kGenerateTile], condition[kGenerateTile];
  gather_rows(*job.self, job.load, start, n, x, sizeof(V));
  gather_rows(*job.condition, job.load_condition, start, n, condition, sizeof(V));
  const RandomSlopeAttrs attrs = job.attrs;
  each_block(attrs.seed, attrs.offset, start, n,
             [&](const unsigned* words, int64_t first, int64_t count) {
               for (int64_t j = 0; j < count; ++j) {
                 const int64_t i = first + j;
                 y[i] = condition[i] <= V(0) ? x[i] * static_cast<V>(attrs.slope(words[j])) : x[i];
               }
             });
}

void dropout_kernel(const KernelContext& context, const DropoutAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  if (out.dtype == kFloat64) {
    const DropoutJob<double> job{{&in, nullptr, load_fn<double>(in.dtype)}, attrs};
    return run_generate(out, dropout_tile<double>, kFloat64, &job);
  }
  const DropoutJob<float> job{{&in, nullptr, load_fn<float>(in.dtype)}, attrs};
  run_generate(out, dropout_tile<float>, kFloat32, &job);
}

void slope_kernel(const KernelContext& context, const RandomSlopeAttrs& attrs) {
  const View &in = context.input(0), &condition = context.input(1), &out = context.output();
  if (out.dtype == kFloat64) {
    const SlopeJob<double> job{
        {&in, &condition, load_fn<double>(in.dtype)}, load_fn<double>(condition.dtype), attrs};
    return run_generate(out, slope_tile<double>, kFloat64, &job);
  }
  const SlopeJob<float> job{
      {&in, &condition, load_fn<float>(in.dtype)}, load_fn<float>(condition.dtype), attrs};
  run_generate(out, slope_tile<float>, kFloat32, &job);
}

}  // namespace

void register_dropout_cpu() {
  dropout_op.set_kernel(DeviceType::cpu, dropout_kernel);
  random_slope_op.set_kernel(DeviceType::cpu, slope_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
