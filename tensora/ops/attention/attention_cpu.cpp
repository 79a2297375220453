#include <cstring>

#include "tensora/ops/attention/attention_tiles.h"

// Note [Attention on the CPU]
// A task is a block of queries of one head. It walks over the keys in blocks and keeps, per row,
// the largest score so far, the sum of exponentials relative to it, and the result that goes with
// them; when the largest score grows, the other two shrink (the online softmax). Keys and values
// are packed once into the panels that gemm's register tiles read, and shared by all blocks of
// queries of all heads that use them; only as many heads are packed at a time as fit kPackedBytes.

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kPackedBytes = int64_t{64} << 20;

// Rows whose scores are computed at once. So few stay in the L1 cache until they are multiplied
// with the values, and in causal attention see almost the same keys.
template <class T>
constexpr int64_t kRowsAtOnce = std::is_same_v<T, BFloat16> ? 32 : 24;

constexpr int64_t kSumLanes = 16;  // of a row's sums, added up at the end; divides kKeyBlock

int64_t whole_lanes(int64_t n) { return blocks_of(n, kSumLanes) * kSumLanes; }

// Keys and values of some (sequence, group) pairs, as panels.
template <class T>
struct Packed {
  using C = gemm_compute_t<T>;
  int64_t key_width, value_width;  // numbers per key, padded
  int64_t per_pair;                // numbers per pair
  HostScratch<C> keys, values;

  Packed(const Problem<C>& problem, int64_t pairs, int64_t most_keys)
      : key_width(problem.query.cols),
        value_width(padded_width<T>(problem.value.cols)),
        per_pair(blocks_of(most_keys, kKeyBlock) * kKeyBlock),
        keys(pairs * per_pair * key_width),
        values(pairs * per_pair * value_width) {}
  C* keys_at(int64_t pair, int64_t key) {
    return keys.data() + (pair * per_pair + key) * key_width;
  }
  C* values_at(int64_t pair, int64_t key) {
    return values.data() + (pair * per_pair + key) * value_width;
  }
};

template <class T>
void pack_block(const Problem<gemm_compute_t<T>>& problem, const Sequence& sequence, int64_t group,
                int64_t key, int64_t pair, Packed<T>& packed) {
  const int64_t count = std::min(kKeyBlock, sequence.keys - key), first = sequence.first_key + key;
  const int64_t size = problem.key.cols, width = packed.value_width;
  HostScratch<T> memory(count * std::max(size, width));
  const MatrixView<const T> keys =
      problem.key.rows(sequence.batch, group, first, count, size, memory.data());
  pack<T>({keys.data, 1, keys.row_stride}, size, count, packed.keys_at(pair, key));
  const MatrixView<const T> values =
      problem.value.rows(sequence.batch, group, first, count, width, memory.data());
  pack<T>(values, count, width, packed.values_at(pair, key));
}

// The memory of one task.
template <class T>
struct Work {
  using C = gemm_compute_t<T>;
  HostScratch<T> query;
  HostScratch<C> scores, result, scratch;
  HostScratch<T> rounded;  // exponentials, where the products do not take them as they are
  C largest[kQueryBlock];
  C totals[kQueryBlock][kSumLanes];  // of exponentials, each of every kSumLanes-th key

  explicit Work(const Problem<C>& problem)
      : query(kQueryBlock * problem.query.cols),
        scores(kQueryBlock * kKeyBlock),
        result(kQueryBlock * padded_width<T>(problem.value.cols)),
        scratch(tile_kernels<T>().scratch),
        rounded(std::is_same_v<T, C> ? 0 : kQueryBlock * kKeyBlock) {}
  void clear(int64_t rows, int64_t width) {
    std::fill_n(largest, rows, -kInfinite<C>);
    std::fill_n(&totals[0][0], rows * kSumLanes, C(0));
    std::fill_n(result.data(), rows * width, C(0));
  }
  T* exponentials() {
    if constexpr (std::is_same_v<T, C>)
      return scores.data();
    else
      return rounded.data();
  }
};

// The largest score of a row so far; the result so far, and the sums, follow it. Scores that the
// row does not see become infinitely small, up to a whole number of kSumLanes.
template <class T, class C = gemm_compute_t<T>>
void raise_row(const Problem<C>& problem, const TilePlace& tile, int64_t row, int64_t width,
               Work<T>& work) {
  C* const scores = work.scores.data() + row * kKeyBlock;
  const int64_t visible = visible_keys(problem.causal, tile, row), whole = whole_lanes(visible);
  if (problem.mask.data) mask_row(problem.mask, tile, row, scores);
  std::fill(scores + visible, scores + whole, -kInfinite<C>);
  const C before = work.largest[row];
  C largest = before;
#pragma omp simd reduction(max : largest)
  for (int64_t j = 0; j < whole; ++j) largest = scores[j] > largest ? scores[j] : largest;
  if (largest == before) return;
  work.largest[row] = largest;
  const C shrink = exponential(before - largest);
  C *const result = work.result.data() + row * width, *const totals = work.totals[row];
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) result[j] *= shrink;
#pragma omp simd
  for (int64_t lane = 0; lane < kSumLanes; ++lane) totals[lane] *= shrink;
}

// Scores become exponentials relative to the row's largest so far, and are added to the sums.
template <class T, class C = gemm_compute_t<T>>
void soften_row(const Problem<C>& problem, const TilePlace& tile, int64_t row, Work<T>& work) {
  C* const scores = work.scores.data() + row * kKeyBlock;
  const int64_t visible = visible_keys(problem.causal, tile, row), whole = whole_lanes(visible);
  const C base = work.largest[row] == -kInfinite<C> ? C(0) : work.largest[row];
  C sums[kSumLanes] = {};
  for (int64_t j = 0; j < whole; j += kSumLanes) {
#pragma omp simd
    for (int64_t lane = 0; lane < kSumLanes; ++lane) {
      const C e = exponential(scores[j + lane] - base);
      scores[j + lane] = e;
      sums[lane] += e;
    }
  }
  C* const totals = work.totals[row];
#pragma omp simd
  for (int64_t lane = 0; lane < kSumLanes; ++lane) totals[lane] += sums[lane];
  if (problem.dropout.on) {
    C factors[kKeyBlock];
    dropout_row(problem.dropout, dropout_element(problem, tile, row), visible, factors);
    for (int64_t j = 0; j < visible; ++j) scores[j] *= factors[j];
  }
  T* const exponentials = work.exponentials() + row * kKeyBlock;
  if constexpr (!std::is_same_v<T, C>) round_numbers(scores, whole, exponentials);
  if (whole < tile.cols) std::fill(exponentials + whole, exponentials + tile.cols, T(0));
}

// Rows of the work from `first` on become results, those of the tile.
template <class T, class C = gemm_compute_t<T>>
void finish_rows(const TilePlace& tile, int64_t width, int64_t first, Work<T>& work,
                 const Target& out, C* logarithms) {
  for (int64_t i = 0; i < tile.rows; ++i) {
    C* const result = work.result.data() + (first + i) * width;
    C total = 0;
    for (const C sum : work.totals[first + i]) total += sum;
    const C factor = total == 0 ? C(0) : C(1) / total;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) result[j] *= factor;
    logarithms[i] = total == 0 ? -kInfinite<C> : work.largest[first + i] + math::log(total);
  }
  const Sequence& sequence = *tile.sequence;
  out.store_rows(sequence.batch, tile.head, sequence.first_query + tile.query, tile.rows, width,
                 work.result.data() + first * width);
}

template <class T, class C = gemm_compute_t<T>>
void attend_block(const Problem<C>& problem, TilePlace tile, int64_t pair, Packed<T>& packed,
                  Work<T>& work, const Target& out, C* logarithms) {
  const Sequence& sequence = *tile.sequence;
  const int64_t size = problem.query.cols, width = packed.value_width;
  const MatrixView<const T> query =
      problem.query.rows(sequence.batch, tile.head, sequence.first_query + tile.query, tile.rows,
                         size, work.query.data());
  work.clear(tile.rows, width);
  const int64_t keys =
      problem.causal ? std::min(sequence.keys, tile.query + tile.rows) : sequence.keys;
  for (tile.key = 0; tile.key < keys; tile.key += kKeyBlock) {
    tile.cols = std::min(kKeyBlock, sequence.keys - tile.key);
    const PackedMatrix<T> turned{packed.keys_at(pair, tile.key), size, tile.cols};
    const PackedMatrix<T> values{packed.values_at(pair, tile.key), tile.cols, width};
    for (int64_t row = 0, rows = 0; row < tile.rows; row += rows) {
      rows = std::min(kRowsAtOnce<T>, tile.rows - row);
      const int64_t seen = visible_keys(problem.causal, tile, row + rows - 1);
      if (seen == 0) continue;
      multiply_packed<T>(rows, turned.columns(seen), {query.at(row, 0), query.row_stride, 1},
                         turned, work.scores.data() + row * kKeyBlock, kKeyBlock, problem.scale, 0,
                         work.scratch.data());
      for (int64_t i = row; i < row + rows; ++i) raise_row(problem, tile, i, width, work);
      for (int64_t i = row; i < row + rows; ++i) soften_row(problem, tile, i, work);
      add_packed<T>(rows, seen, {work.exponentials() + row * kKeyBlock, kKeyBlock, 1}, values,
                    work.result.data() + row * width, 1, work.scratch.data());
    }
  }
  finish_rows(tile, width, 0, work, out, logarithms);
}

// Few queries: packing would cost more than the products. The queries of all heads that share keys
// are the rows of one product, and keys and values are read once, in place where they are numbers
// of the compute type side by side.
constexpr int64_t kFewRows = 16;

template <class C>
void attend_few(const Problem<C>& problem, const Sequence& sequence, int64_t group, Work<C>& work,
                const Target& out, C* logarithms) {
  const SkinnyKernels<C>& kernels = skinny_kernels<C>();
  const int64_t shared = problem.heads_per_group(), queries = sequence.queries;
  const int64_t rows = shared * queries, size = problem.query.cols, width = problem.value.cols;
  const int64_t pitch = padded_width<C>(width);
  if (rows == 0) return;
  HostScratch<C> dense(kFewRows * kKeyBlock), sums(kFewRows * width),
      memory(kKeyBlock * std::max(size, width));
  for (int64_t h = 0; h < shared; ++h)
    problem.query.load_rows(sequence.batch, group * shared + h, sequence.first_query, queries, size,
                            work.query.data() + h * queries * size);
  work.clear(rows, pitch);
  const int64_t keys = problem.causal ? std::min(sequence.keys, queries) : sequence.keys;
  TilePlace tile{.sequence = &sequence};
  for (tile.key = 0; tile.key < keys; tile.key += kKeyBlock) {
    tile.cols = std::min(kKeyBlock, keys - tile.key);
    const int64_t first = sequence.first_key + tile.key;
    const MatrixView<const C> k =
        problem.key.rows(sequence.batch, group, first, tile.cols, size, memory.data());
    kernels.along_columns({.m = rows,
                           .n = tile.cols,
                           .k = size,
                           .a = work.query.data(),
                           .b = {k.data, 1, k.row_stride},
                           .sums = dense.data()});
    for (int64_t r = 0; r < rows; ++r) {
      C *const row = dense.data() + r * tile.cols, *const scores =
                                                       work.scores.data() + r * kKeyBlock;
      for (int64_t j = 0; j < tile.cols; ++j) scores[j] = row[j] * problem.scale;
      tile.head = group * shared + r / queries;
      tile.query = r % queries - r;  // row r of the tile is query r % queries
      raise_row(problem, tile, r, pitch, work);
      soften_row(problem, tile, r, work);
      std::copy_n(scores, tile.cols, row);
    }
    const MatrixView<const C> v =
        problem.value.rows(sequence.batch, group, first, tile.cols, width, memory.data());
    kernels.along_rows(
        {.m = rows, .n = width, .k = tile.cols, .a = dense.data(), .b = v, .sums = sums.data()});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t d = 0; d < width; ++d)
        work.result.data()[r * pitch + d] += sums.data()[r * width + d];
  }
  // Head by head, as finish_rows stores them.
  for (int64_t h = 0; h < shared; ++h) {
    const TilePlace place{.sequence = &sequence, .head = group * shared + h, .rows = queries};
    finish_rows(place, pitch, h * queries, work, out,
                logarithms + (sequence.batch * problem.heads + place.head) * problem.rows +
                    sequence.first_query);
  }
}

// One (sequence, group) pair after another, in waves that share the memory for packed keys.
template <class T, class C = gemm_compute_t<T>>
void attend_blocks(const Problem<C>& problem, int64_t most_queries, int64_t most_keys,
                   const Target& out, C* logarithms) {
  const int64_t pairs = static_cast<int64_t>(problem.sequences.size()) * problem.groups;
  const int64_t per_key = problem.query.cols + padded_width<T>(problem.value.cols);
  const int64_t bytes = std::max<int64_t>(most_keys, 1) * per_key * int64_t{sizeof(C)};
  const int64_t wave = std::clamp<int64_t>(kPackedBytes / std::max<int64_t>(bytes, 1), 1, pairs);
  Packed<T> packed(problem, wave, most_keys);
  const int64_t key_blocks = blocks_of(most_keys, kKeyBlock);
  const int64_t query_blocks = blocks_of(most_queries, kQueryBlock);
  const int64_t shared = problem.heads_per_group();
  for (int64_t begin = 0; begin < pairs; begin += wave) {
    const int64_t count = std::min(wave, pairs - begin);
    const auto sequence_of = [&](int64_t pair) -> const Sequence& {
      return problem.sequences[static_cast<size_t>((begin + pair) / problem.groups)];
    };
    parallel_for(count * key_blocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t pair = task / key_blocks, key = task % key_blocks * kKeyBlock;
        if (key < sequence_of(pair).keys)
          pack_block(problem, sequence_of(pair), (begin + pair) % problem.groups, key, pair,
                     packed);
      }
    });
    parallel_for(count * shared * query_blocks, 1, [&](int64_t first, int64_t last) {
      Work<T> work(problem);
      for (int64_t task = first; task < last; ++task) {
        const int64_t pair = task / (shared * query_blocks), rest = task % (shared * query_blocks);
        const Sequence& sequence = sequence_of(pair);
        // Last blocks first: in causal attention they have the most keys.
        const int64_t query = (query_blocks - 1 - rest % query_blocks) * kQueryBlock;
        if (query >= sequence.queries) continue;
        const TilePlace tile{.sequence = &sequence,
                             .head = (begin + pair) % problem.groups * shared + rest / query_blocks,
                             .query = query,
                             .rows = std::min(kQueryBlock, sequence.queries - query)};
        attend_block(problem, tile, pair, packed, work, out,
                     logarithms + (sequence.batch * problem.heads + tile.head) * problem.rows +
                         sequence.first_query + query);
      }
    });
  }
}

template <class C>
void attend(const Problem<C>& problem, const Target& out, C* logarithms) {
  int64_t most_keys = 0, most_queries = 0;
  for (const Sequence& sequence : problem.sequences) {
    most_keys = std::max(most_keys, sequence.keys);
    most_queries = std::max(most_queries, sequence.queries);
  }
  const int64_t pairs = static_cast<int64_t>(problem.sequences.size()) * problem.groups;
  if (pairs == 0 || most_queries == 0) return;
  if (most_queries * problem.heads_per_group() <= kFewRows && problem.query.cols > 0 &&
      problem.value.cols > 0) {
    parallel_for(pairs, 1, [&](int64_t first, int64_t last) {
      Work<C> work(problem);
      for (int64_t pair = first; pair < last; ++pair)
        attend_few(problem, problem.sequences[static_cast<size_t>(pair / problem.groups)],
                   pair % problem.groups, work, out, logarithms);
    });
    return;
  }
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<C, float>)
    if (multiplies_bfloat16(problem.query.dtype))
      return attend_blocks<BFloat16>(problem, most_queries, most_keys, out, logarithms);
#endif
  attend_blocks<C>(problem, most_queries, most_keys, out, logarithms);
}

void attention_kernel(const KernelContext& context, const AttentionAttrs& attrs) {
  const auto run = [&]<class C>() {
    const Problem<C> problem =
        problem_of<C>(context, 0, optional_input(context, 3), optional_input(context, 4),
                      optional_input(context, 5), attrs);
    // Tokens of no sequence: the outputs are dense, so all bytes are theirs.
    if (optional_input(context, 4))
      for (const View* out : context.out)
        if (out->numel) std::memset(out->data, 0, out->bytes());
    attend<C>(problem, Target::of<C>(context.output(0)), context.output(1).as<C>());
  };
  if (context.output(0).dtype == DType::float64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
}

}  // namespace

std::vector<Sequence> sequences_of(std::string_view op, const View& query, const View& key,
                                   const View* lengths_q, const View* lengths_k,
                                   int64_t most_keys) {
  std::vector<Sequence> result;
  if (!lengths_q) {
    for (int64_t b = 0; b < query.sizes[0]; ++b)
      result.push_back({b, 0, query.sizes[2], 0, key.sizes[2]});
    return result;
  }
  const auto start = [](const View& lengths, int64_t i) {
    return int64_t{lengths.as<const int32_t>()[i * lengths.strides[0]]};
  };
  for (int64_t n = 0; n + 1 < lengths_q->sizes[0]; ++n) {
    const int64_t q = start(*lengths_q, n), k = start(*lengths_k, n);
    const int64_t q_end = start(*lengths_q, n + 1), k_end = start(*lengths_k, n + 1);
    check(0 <= q && q <= q_end && q_end <= query.sizes[2] && 0 <= k && k <= k_end &&
              k_end <= key.sizes[2],
          op, ": cu_seqlens must increase from 0 to the number of tokens, got sequence ", n,
          " with queries ", q, " to ", q_end, " of ", query.sizes[2], " and keys ", k, " to ",
          k_end, " of ", key.sizes[2]);
    check(k_end - k <= most_keys, op, ": sequence ", n, " has ", k_end - k,
          " keys, more than max_seqlen_k ", most_keys);
    result.push_back({0, q, q_end - q, k, k_end - k});
  }
  return result;
}

void register_attention_cpu() { attention_op.set_kernel(DeviceType::cpu, attention_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
