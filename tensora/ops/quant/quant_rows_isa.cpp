// Widest instruction set: AVX-512 VNNI. See Note [One kernel, several instruction sets].
// Registers nothing: products that the kernels of several ops are made of.
#include <bit>
#include <cmath>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/quant/quant_rows.h"
#include "tensora/ops/quant/quant_vector.h"

namespace tensora::cpu::TENSORA_ISA {

namespace {

int64_t count_rows(const View& x) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < x.dim(); ++d) rows *= x.sizes[d];
  return rows;
}
#if defined(__AVX2__)
// Up to this many rows of activations unpacking weights does not pay. VNNI multiplies twice as many
// numbers that were unpacked, which pays earlier unless rows are short.
constexpr int64_t kFewRows = 8;
int64_t few_rows(const WeightRows& w) { return kHasVnni && w.columns >= 128 ? 4 : kFewRows; }
#endif
// Rows of activations that are worth a task.
int64_t rows_at_once(int64_t columns) { return std::max<int64_t>(1, (1 << 14) / (columns + 1)); }

}  // namespace

Activations::Activations(const View& x) : x_(x), rows_(count_rows(x)), columns_(x.sizes.back()) {}

void Activations::widen() {
  if (floats_.stride > 0) return;
  const int64_t padded = (columns_ + 15) / 16 * 16;
  floats_.stride = padded;
  if (x_.dtype == kFloat32 && padded == columns_) {
    floats_.data = x_.as<const float>();
    return;
  }
  wide_.emplace(rows_ * padded);
  float* to = wide_->data();
  visit_floating(x_.dtype, "quant_linear", [&]<class T>() {
    const T* from = x_.as<const T>();
    parallel_for(rows_, rows_at_once(padded), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        load_tile<T, float>(from + r * columns_, 1, columns_, to + r * padded);
        std::fill(to + r * padded + columns_, to + (r + 1) * padded, 0.0f);
      }
    });
  });
  floats_.data = to;
}

#if defined(__AVX2__)

namespace {

// The largest magnitude of 32 numbers, as bits: NaN is above infinity, and that above the others.
[[gnu::always_inline]] inline __m256i largest_bits(const __m256 (&x)[4]) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_setzero_si256();
  for (const __m256& lanes : x)
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(lanes), magnitude));
  return largest;
}
[[gnu::always_inline]] inline float largest_lane(__m256i bits) {
  __m128i x = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1));
  return std::bit_cast<float>(_mm_cvtsi128_si32(x));
}

struct Rounding {
  float scale, inverse;
  // Where a number is not finite there is no scale, and every product becomes NaN.
  explicit Rounding(float largest) : scale(largest / 127), inverse(127 / largest) {
    if (!std::isfinite(largest)) scale = __builtin_nanf("");
    if (!std::isfinite(largest) || !std::isfinite(inverse)) inverse = 0;
    if (std::isfinite(largest) && inverse == 0) scale = 0;
  }
};

// 32 numbers as bytes.
[[gnu::always_inline]] inline __m256i rounded(const __m256 (&x)[4], float inverse) {
  __m256i whole[4];
  for (int i = 0; i < 4; ++i) {
    // Numbers that are not finite must not become whole ones that leave the range.
    const __m256 scaled = _mm256_mul_ps(x[i], _mm256_set1_ps(inverse));
    whole[i] = inverse == 0 ? _mm256_setzero_si256() : _mm256_cvtps_epi32(scaled);
  }
  const __m256i shorts[2] = {_mm256_packs_epi32(whole[0], whole[1]),
                             _mm256_packs_epi32(whole[2], whole[3])};
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(shorts[0], shorts[1]), order);
}

// The sums of both halves of 32 bytes.
[[gnu::always_inline]] inline void half_sums(__m256i q, int (&sums)[2]) {
  const __m256i above = _mm256_xor_si256(q, _mm256_set1_epi8(-128));
  const __m256i eights = _mm256_sad_epu8(above, _mm256_setzero_si256());
  const auto lane = [&](auto half) {
    const __m128i two = half;
    return static_cast<int>(_mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1)) - 2048;
  };
  sums[0] = lane(_mm256_castsi256_si128(eights));
  sums[1] = lane(_mm256_extracti128_si256(eights, 1));
}

// `parts` of a chunk of a row, with a scale for each of them, or with one for all.
template <bool fine>
void round_chunk(const float* from, int parts, int8_t* q, float* scale, float* total, int16_t* sums,
                 int32_t* bias) {
  __m256 x[kParts][4];
  __m256i largest[kParts], all = _mm256_setzero_si256();
  for (int p = 0; p < parts; ++p) {
    for (int i = 0; i < 4; ++i) x[p][i] = _mm256_loadu_ps(from + p * 32 + i * 8);
    largest[p] = largest_bits(x[p]);
    all = _mm256_max_epi32(all, largest[p]);
  }
  const Rounding common(largest_lane(all));
  if constexpr (!fine) *scale = common.scale;
  for (int p = 0; p < parts; ++p) {
    const Rounding rounding = fine ? Rounding(largest_lane(largest[p])) : common;
    const __m256i bytes = rounded(x[p], rounding.inverse);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + p * 32), bytes);
    int halves[2];
    half_sums(bytes, halves);
    if constexpr (fine) {
      scale[p] = rounding.scale;
      total[p] = rounding.scale * static_cast<float>(halves[0] + halves[1]);
      bias[p] = -128 * (halves[0] + halves[1]);
    } else {
      for (int h = 0; h < 2; ++h) sums[2 * p + h] = static_cast<int16_t>(halves[h]);
    }
  }
}

template <bool fine>
void round_row(const float* from, int64_t columns, int64_t chunks, int8_t* q, float* scale,
               float* total, int16_t* sums, int32_t* bias) {
  constexpr int kScales = fine ? kParts : 1;
  for (int64_t c = 0; c < chunks; ++c) {
    const float* chunk = from + c * kChunk;
    float padded[kChunk];
    int parts = kParts;
    // Nothing multiplies the parts behind a row's last number.
    if (const int64_t left = columns - c * kChunk; left < kChunk) {
      parts = static_cast<int>((left + 31) / 32);
      std::fill(std::copy(chunk, chunk + left, padded), padded + parts * 32, 0.0f);
      std::fill(q + c * kChunk + parts * 32, q + (c + 1) * kChunk, int8_t{0});
      chunk = padded;
    }
    round_chunk<fine>(chunk, parts, q + c * kChunk, scale + c * kScales, total + c * kScales,
                      sums + c * (kChunk / 16), bias + c * kScales);
  }
}

enum class Form { floats, fine, coarse };

// Calls `body` with the reader of a dtype's chunks; false if it has none.
template <class Body>
bool visit_chunks(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::q4_0:
      return body.template operator()<ChunksQ4_0>(), true;
    case DType::q4_1:
      return body.template operator()<ChunksQ4_1>(), true;
    case DType::q5_0:
      return body.template operator()<ChunksQ5_0>(), true;
    case DType::q5_1:
      return body.template operator()<ChunksQ5_1>(), true;
    case DType::q8_0:
      return body.template operator()<ChunksQ8_0>(), true;
    case DType::q2_k:
      return body.template operator()<ChunksQ2_K>(), true;
    case DType::q3_k:
      return body.template operator()<ChunksQ3_K>(), true;
    case DType::q4_k:
      return body.template operator()<ChunksQ4_K>(), true;
    case DType::q5_k:
      return body.template operator()<ChunksQ5_K>(), true;
    case DType::q6_k:
      return body.template operator()<ChunksQ6_K>(), true;
    case DType::iq4_nl:
      return body.template operator()<ChunksIQ4_NL>(), true;
    case DType::iq4_xs:
      return body.template operator()<ChunksIQ4_XS>(), true;
    case DType::mxfp4:
      return body.template operator()<ChunksMXFP4>(), true;
    case DType::int8:
      return body.template operator()<ChunksInt8>(), true;
    default:
      return false;
  }
}

Form form_of(DType dtype) {
  Form form = Form::floats;
  visit_chunks(dtype, [&]<class Type>() { form = is_fine<Type> ? Form::fine : Form::coarse; });
  return form;
}

}  // namespace

Activations::Bytes::Bytes(int64_t rows, int64_t chunks, int64_t parts)
    : q(rows * chunks * kChunk),
      scale(rows * chunks * parts),
      total(rows * chunks * parts),
      sums(rows * chunks * (kChunk / 16)),
      bias(rows * chunks * parts),
      view{q.data(), scale.data(), total.data(), sums.data(), chunks, chunks * parts, bias.data()} {
}

void Activations::Bytes::part_signs(int64_t rows) {
  const int64_t parts = rows * view.chunks * kParts;
  parted.emplace(2 * parts * 32);
  below.emplace(parts);
  int8_t *magnitudes = parted->data(), *flips = magnitudes + parts * 32;
  for (int64_t p = 0; p < parts; ++p) {
    const __m256i x = ByteRow::load_part(view.q, p);
    const __m256i magnitude = _mm256_abs_epi8(x),
                  flip = _mm256_cmpgt_epi8(_mm256_setzero_si256(), x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(magnitudes + p * 32), magnitude);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(flips + p * 32), flip);
    int halves[2];
    half_sums(_mm256_and_si256(magnitude, flip), halves);
    below->data()[p] = halves[0] + halves[1];
  }
  view.magnitudes = magnitudes;
  view.flips = flips;
  view.below = below->data();
}

void Activations::prepare(DType dtype) {
  widen();
  const Form form = form_of(dtype);
  if (form == Form::floats) return;
  const bool fine = form == Form::fine;
  std::optional<Bytes>& bytes = fine ? fine_ : coarse_;
  if (bytes) return;
  const int64_t chunks = (columns_ + kChunk - 1) / kChunk;
  bytes.emplace(rows_, chunks, fine ? kParts : 1);
  const auto round = fine ? round_row<true> : round_row<false>;
  parallel_for(rows_, rows_at_once(chunks * kChunk), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      round(floats_.data + r * floats_.stride, columns_, chunks,
            bytes->q.data() + r * chunks * kChunk, bytes->scale.data() + r * bytes->view.scales,
            bytes->total.data() + r * bytes->view.scales,
            bytes->sums.data() + r * chunks * (kChunk / 16),
            bytes->bias.data() + r * bytes->view.scales);
  });
  if (fine && rows_ <= kFewRows && !kHasVnni) bytes->part_signs(rows_);
}

namespace {

// X rows of activations from `row` on: the weights are used as they are read.
template <class Type, int X>
void multiply_vectors(const WeightRows& w, int64_t first, int64_t last, const ByteRows& x,
                      int64_t row, float* out, int64_t stride) {
  if constexpr (is_fine<Type>)
    if (are_short(w)) {
      const int64_t count = (last - first) / 8 * 8;
      times_short_rows<Type, X>(w, first, first + count, x, row, out, stride);
      first += count;
      out += count;
    }
  for (int64_t j = first; j < last; j += 8) {
    __m256 results[X];
    times_vectors<Type, X>(RowsOfEight(w, j, last), w, x, row, results);
    for (int i = 0; i < X; ++i) {
      alignas(32) float numbers[8];
      _mm256_store_ps(numbers, results[i]);
      std::copy_n(numbers, std::min<int64_t>(8, last - j), out + i * stride + j - first);
    }
  }
}
template <class Type>
void multiply_few(const WeightRows& w, int64_t first, int64_t last, const ByteRows& x, int64_t rows,
                  float* out, int64_t stride) {
  for (int64_t row = 0; row < rows; row += 4) {
    float* const to = out + row * stride;
    switch (rows - row) {
      case 1:
        return multiply_vectors<Type, 1>(w, first, last, x, row, to, stride);
      case 2:
        return multiply_vectors<Type, 2>(w, first, last, x, row, to, stride);
      case 3:
        return multiply_vectors<Type, 3>(w, first, last, x, row, to, stride);
      default:
        multiply_vectors<Type, 4>(w, first, last, x, row, to, stride);
    }
  }
}

// Many rows: eight or sixteen rows of the weight at a time are unpacked, and a panel of activations
// is multiplied with as much of them as stays in the first cache.
template <class Type>
class Panels {
 public:
  Panels(const WeightRows& w, const ByteRows& x, int64_t count) : w_(w), x_(x), count_(count) {}

  void multiply(int64_t first, int64_t last, float* out, int64_t stride) {
    for (int64_t begin = 0; begin < count_; begin += kPanel) {
      const int64_t rows = std::min(kPanel, count_ - begin);
      for (int64_t j = first; j < last; j += kRows) {
        int64_t chunk = 0;
        do {  // once where there are no numbers, for sums that are zero
          add(j, last, begin, rows, chunk, std::min(kDeep, x_.chunks - chunk));
        } while ((chunk += kDeep) < x_.chunks);
        for (int64_t i = 0; i < rows; ++i) {
          float results[kRows];
          Lanes::store(total(sums_[i]), results);
          std::copy_n(results, std::min(kRows, last - j), out + (begin + i) * stride + j - first);
        }
      }
    }
  }

 private:
  static constexpr int kE = kEights<Type>;
  using Lanes = Eights<kE>;
  using Floats = typename Lanes::Floats;
  static constexpr int64_t kRows = 8 * kE;  // of the weight
  static constexpr int64_t kPanel = 64, kDeep = 8 / kE;
  static constexpr int kSums = is_fine<Type> ? kParts : 1;

  static Floats total(const Floats (&sums)[kSums]) {
    if constexpr (is_fine<Type>)
      return sum_of_sums(sums);
    else
      return sums[0];
  }

  void add(int64_t j, int64_t last, int64_t begin, int64_t rows, int64_t chunk, int64_t chunks) {
    for (int eight = 0; eight < kE; ++eight) {
      const RowsOfEight from(w_, j + 8 * eight, last);
      for (int64_t c = 0; c < chunks; ++c)
        read_eight<Type>(from, chunk + c, w_, unpacked_[c], eight);
    }
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) add_rows(begin, i, chunk, chunks, std::make_index_sequence<4>());
    for (; i + 2 <= rows; i += 2) add_rows(begin, i, chunk, chunks, std::make_index_sequence<2>());
    if (i < rows) add_rows(begin, i, chunk, chunks, std::make_index_sequence<1>());
  }

  template <size_t... I>
  void add_rows(int64_t begin, int64_t i, int64_t chunk, int64_t chunks,
                std::index_sequence<I...>) {
    const ByteRow rows[] = {ByteRow(x_, begin + i + static_cast<int64_t>(I))...};
    const int last = is_fine<Type> ? parts_of(w_, chunk + chunks - 1) : 0;
    for (int p = 0; p < kSums; ++p) {
      // Those of the first chunk begin at zero.
      Floats sums[] = {chunk > 0 ? sums_[i + static_cast<int64_t>(I)][p] : Lanes::all(0.0f)...};
      if constexpr (is_fine<Type>)
        add_part<Type>(unpacked_, rows, p, chunk, p < last ? chunks : chunks - 1, sums);
      else
        for (int64_t c = 0; c < chunks; ++c) add_chunk<Type>(unpacked_[c], rows, chunk + c, sums);
      ((sums_[i + static_cast<int64_t>(I)][p] = sums[I]), ...);
    }
  }

  const WeightRows& w_;
  const ByteRows& x_;
  const int64_t count_;
  RowsOf<Type> unpacked_[kDeep];
  Floats sums_[kPanel][kSums];
};

}  // namespace

template <class Type>
void Activations::multiply_by(const WeightRows& w, int64_t first, int64_t last, float* out,
                              int64_t stride) const {
  const ByteRows& x = is_fine<Type> ? fine_->view : coarse_->view;
  if (rows_ <= few_rows(w))
    multiply_few<Type>(w, first, last, x, rows_, out, stride);
  else
    Panels<Type>(w, x, rows_).multiply(first, last, out, stride);
}

void Activations::multiply(DType dtype, const WeightRows& w, int64_t first, int64_t last,
                           float* out, int64_t stride) const {
  if (!visit_chunks(dtype, [&]<class Type>() { multiply_by<Type>(w, first, last, out, stride); }))
    multiply_floats(dtype, w, first, last, out, stride);
}

#else

void Activations::prepare(DType) { widen(); }

void Activations::multiply(DType dtype, const WeightRows& w, int64_t first, int64_t last,
                           float* out, int64_t stride) const {
  multiply_floats(dtype, w, first, last, out, stride);
}

#endif

void Activations::multiply_floats(DType dtype, const WeightRows& w, int64_t first, int64_t last,
                                  float* out, int64_t stride) const {
  visit_reader(dtype, [&]<class Reader>() {
    FloatProducts<Reader>(w, floats_, rows_).multiply(first, last, out, stride);
  });
}

}  // namespace tensora::cpu::TENSORA_ISA
