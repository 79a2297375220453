#include <cstring>

#include "tensora/ops/attention/attention_tiles.h"

// Note [Attention backward on the CPU]
// With P the probabilities, recomputed from the saved logarithms, g the result's gradient, and
// delta the dot product of each row of g and the result (less the gradient of the logarithm),
//   dV = P^T g,  dS = P * (g V^T - delta),  dQ = scale dS K,  dK = scale dS^T Q.
// A task is a (sequence, group) pair, or a part of its keys where there are few pairs: it walks
// over blocks of keys, and for each over all queries of all heads of the group. dK and dV of a
// block are then complete; dQ accumulates in memory of the task's own, and the parts are summed in
// order. The number of parts depends on the shape alone, so that the result does not depend on the
// threads.

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kFewTasks = 16;
constexpr int64_t kDiagonalRows = 48;  // at once, where a row sees one key more than that before it
constexpr int64_t kPartKeys = 2 * kKeyBlock;  // a part of the keys has at least as many

template <class C>
struct Backward {
  Problem<C> problem;
  Operand grad;
  const C* logarithms = nullptr;
  C* delta = nullptr;  // as many numbers as logarithms

  int64_t line(const TilePlace& tile) const {
    return (tile.sequence->batch * problem.heads + tile.head) * problem.rows +
           tile.sequence->first_query + tile.query;
  }
};

// What a task keeps of a block of queries and of a block of keys.
template <class T>
struct Tiles {
  using C = gemm_compute_t<T>;
  int64_t width, value_width;                  // padded
  MatrixView<const T> query, grad;             // kQueryBlock rows
  HostScratch<C> p, ds;                        // kQueryBlock by kKeyBlock
  HostScratch<T> rounded_p, rounded_ds;        // where the products do not take these as they are
  HostScratch<T> query_rows, grad_rows, rows;  // what is not read in place
  HostScratch<C> keys_turned, values_turned, keys, dk, dv, packed, scratch;
  int64_t packed_keys = 0;

  static constexpr bool kRounds = !std::is_same_v<T, C>;

  explicit Tiles(const Problem<C>& problem)
      : width(padded_width<T>(problem.query.cols)),
        value_width(padded_width<T>(problem.value.cols)),
        p(kQueryBlock * kKeyBlock),
        ds(kQueryBlock * kKeyBlock),
        rounded_p(kRounds ? kQueryBlock * kKeyBlock : 0),
        rounded_ds(kRounds ? kQueryBlock * kKeyBlock : 0),
        query_rows(kQueryBlock * width),
        grad_rows(kQueryBlock * value_width),
        rows(kKeyBlock * std::max(width, value_width)),
        keys_turned(kKeyBlock * width),
        values_turned(kKeyBlock * value_width),
        keys(kKeyBlock * width),
        dk(kKeyBlock * width),
        dv(kKeyBlock * value_width),
        packed(kRounds ? kQueryBlock * std::max(width, value_width) : 0),
        scratch(tile_kernels<T>().scratch) {}

  // P and dS of the first `count` rows as the products read them, rows kKeyBlock apart.
  const T* factors(const HostScratch<C>& values, HostScratch<T>& rounded, int64_t count) const {
    if constexpr (kRounds) {
      round_numbers(values.data(), count * kKeyBlock, rounded.data());
      return rounded.data();
    } else {
      return values.data();
    }
  }
};

template <class T>
void load_keys(const Problem<gemm_compute_t<T>>& problem, const TilePlace& tile, Tiles<T>& tiles) {
  const Sequence& sequence = *tile.sequence;
  const int64_t group = problem.group_of(tile.head), first = sequence.first_key + tile.key;
  const int64_t width = tiles.width, value_width = tiles.value_width;
  tiles.packed_keys = tile.cols;
  const MatrixView<const T> keys =
      problem.key.rows(sequence.batch, group, first, tile.cols, width, tiles.rows.data());
  pack<T>({keys.data, 1, keys.row_stride}, width, tile.cols, tiles.keys_turned.data());
  pack<T>(keys, tile.cols, width, tiles.keys.data());
  const MatrixView<const T> values =
      problem.value.rows(sequence.batch, group, first, tile.cols, value_width, tiles.rows.data());
  pack<T>({values.data, 1, values.row_stride}, value_width, tile.cols, tiles.values_turned.data());
}

template <class T>
void load_queries(const Backward<gemm_compute_t<T>>& in, const TilePlace& tile, Tiles<T>& tiles) {
  const Sequence& sequence = *tile.sequence;
  const int64_t first = sequence.first_query + tile.query;
  tiles.query = in.problem.query.rows(sequence.batch, tile.head, first, tile.rows, tiles.width,
                                      tiles.query_rows.data());
  tiles.grad = in.grad.rows(sequence.batch, tile.head, first, tile.rows, tiles.value_width,
                            tiles.grad_rows.data());
}

// One row of scores and of g V^T becomes one of P, with its dropout, and one of dS; zeros follow,
// up to `cols`.
template <class C>
void differentiate_row(const Backward<C>& in, const TilePlace& tile, int64_t row, int64_t cols,
                       C* p, C* ds) {
  const Problem<C>& problem = in.problem;
  const int64_t visible = visible_keys(problem.causal, tile, row);
  if (problem.mask.data) mask_row(problem.mask, tile, row, p);
  const C logarithm = in.logarithms[in.line(tile) + row], delta = in.delta[in.line(tile) + row];
  // A row without any key: its probabilities are 0.
  const C base = logarithm == -kInfinite<C> ? kInfinite<C> : logarithm;
  if (problem.dropout.on) {
    C factors[kKeyBlock];
    dropout_row(problem.dropout, dropout_element(problem, tile, row), visible, factors);
    for (int64_t j = 0; j < visible; ++j) {
      const C probability = exponential(p[j] - base);
      p[j] = probability * factors[j];
      ds[j] = probability * (ds[j] * factors[j] - delta);
    }
  } else {
#pragma omp simd
    for (int64_t j = 0; j < visible; ++j) {
      p[j] = exponential(p[j] - base);
      ds[j] = p[j] * (ds[j] - delta);
    }
  }
  for (int64_t j = visible; j < cols; ++j) p[j] = ds[j] = 0;
}

// P and dS of one tile; dS is not yet scaled.
template <class T, class C = gemm_compute_t<T>>
void differentiate_tile(const Backward<C>& in, const TilePlace& tile, Tiles<T>& tiles) {
  C *const p = tiles.p.data(), *const ds = tiles.ds.data(), *const scratch = tiles.scratch.data();
  const PackedMatrix<T> keys{tiles.keys_turned.data(), tiles.width, tiles.packed_keys},
      values{tiles.values_turned.data(), tiles.value_width, tiles.packed_keys};
  const int64_t cols = keys.columns(tile.cols);
  multiply_packed<T>(tile.rows, cols, tiles.query, keys, p, kKeyBlock, in.problem.scale, 0,
                     scratch);
  multiply_packed<T>(tile.rows, cols, tiles.grad, values, ds, kKeyBlock, 1, 0, scratch);
  for (int64_t i = 0; i < tile.rows; ++i)
    differentiate_row(in, tile, i, tiles.packed_keys, p + i * kKeyBlock, ds + i * kKeyBlock);
}

// All queries against the block of keys at `tile`; dq: heads of the group, queries, width.
template <class T, class C = gemm_compute_t<T>>
void block_of_keys(const Backward<C>& in, TilePlace tile, Tiles<T>& tiles, C* dq) {
  const Problem<C>& problem = in.problem;
  const int64_t width = tiles.width, value_width = tiles.value_width;
  const int64_t first_head = tile.head, queries = tile.sequence->queries;
  load_keys(problem, tile, tiles);
  std::fill_n(tiles.dk.data(), tile.cols * width, C(0));
  std::fill_n(tiles.dv.data(), tile.cols * value_width, C(0));
  for (int64_t h = 0; h < problem.heads_per_group(); ++h) {
    tile.head = first_head + h;
    tile.query = problem.causal ? tile.key / kQueryBlock * kQueryBlock : 0;
    for (; tile.query < queries; tile.query += tile.rows) {
      const bool diagonal = problem.causal && tile.query < tile.key + tiles.packed_keys - 1;
      tile.rows = std::min(diagonal ? kDiagonalRows : kQueryBlock, queries - tile.query);
      tile.cols = tiles.packed_keys;
      tile.cols = visible_keys(problem.causal, tile, tile.rows - 1);
      if (tile.cols == 0) continue;
      load_queries(in, tile, tiles);
      differentiate_tile(in, tile, tiles);
      const T *const p = tiles.factors(tiles.p, tiles.rounded_p, tile.rows),
                     *const ds = tiles.factors(tiles.ds, tiles.rounded_ds, tile.rows);
      C *const packed = tiles.packed.data(), *const scratch = tiles.scratch.data();
      add_product<T>(tile.cols, value_width, tile.rows, {p, 1, kKeyBlock}, tiles.grad,
                     tiles.dv.data(), 1, packed, scratch);
      add_product<T>(tile.cols, width, tile.rows, {ds, 1, kKeyBlock}, tiles.query, tiles.dk.data(),
                     problem.scale, packed, scratch);
      add_packed<T>(tile.rows, tile.cols, {ds, kKeyBlock, 1},
                    {tiles.keys.data(), tiles.packed_keys, width},
                    dq + (h * queries + tile.query) * width, problem.scale, scratch);
    }
  }
}

// delta of every row.
template <class C>
void dot_rows(const Backward<C>& in, const Operand& result, const View* grad_logarithms,
              const View& query) {
  const int64_t rows = query.sizes[2], lines = query.sizes[0] * query.sizes[1] * rows;
  const int64_t width = result.cols;
  parallel_for(lines, 64, [&](int64_t first, int64_t last) {
    HostScratch<C> g(width), y(width);
    for (int64_t line = first; line < last; ++line) {
      const int64_t head = line / rows % query.sizes[1], batch = line / rows / query.sizes[1];
      in.grad.load_rows(batch, head, line % rows, 1, width, g.data());
      result.load_rows(batch, head, line % rows, 1, width, y.data());
      const C *const a = g.data(), *const b = y.data();
      C sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t j = 0; j < width; ++j) sum += a[j] * b[j];
      if (grad_logarithms) {
        const Strides& at = grad_logarithms->strides;
        sum -= grad_logarithms->as<const C>()[batch * at[0] + head * at[1] + line % rows * at[2]];
      }
      in.delta[line] = sum;
    }
  });
}

// The gradients of query, key and value.
template <class T, class C = gemm_compute_t<T>>
void differentiate(const Backward<C>& in, const Target& dq, const Target& dk, const Target& dv) {
  const Problem<C>& problem = in.problem;
  const int64_t pairs = static_cast<int64_t>(problem.sequences.size()) * problem.groups;
  int64_t most_keys = 0, most_queries = 0;
  for (const Sequence& sequence : problem.sequences) {
    most_keys = std::max(most_keys, sequence.keys);
    most_queries = std::max(most_queries, sequence.queries);
  }
  if (pairs == 0 || problem.heads == 0) return;
  const int64_t shared = problem.heads_per_group(), width = padded_width<T>(problem.query.cols);
  const int64_t parts = std::clamp<int64_t>(most_keys / kPartKeys, 1, blocks_of(kFewTasks, pairs));
  const int64_t part_keys = blocks_of(blocks_of(most_keys, parts), kKeyBlock) * kKeyBlock;
  const int64_t per_part = shared * most_queries * width;
  HostScratch<C> partial(parts == 1 ? 0 : pairs * parts * per_part);
  const auto sequence_of = [&](int64_t pair) -> const Sequence& {
    return problem.sequences[static_cast<size_t>(pair / problem.groups)];
  };
  const auto store_dq = [&](int64_t pair, int64_t h, const C* from) {
    const Sequence& sequence = sequence_of(pair);
    dq.store_rows(sequence.batch, pair % problem.groups * shared + h, sequence.first_query,
                  sequence.queries, width, from + h * sequence.queries * width);
  };
  parallel_for(pairs * parts, 1, [&](int64_t first, int64_t last) {
    Tiles<T> tiles(problem);
    HostScratch<C> own(parts == 1 ? per_part : 0);
    for (int64_t task = first; task < last; ++task) {
      const int64_t pair = task / parts, group = pair % problem.groups;
      const Sequence& sequence = sequence_of(pair);
      C* const sums = parts == 1 ? own.data() : partial.data() + task * per_part;
      std::fill_n(sums, shared * sequence.queries * width, C(0));
      const int64_t begin = task % parts * part_keys;
      const int64_t end = std::min(begin + part_keys, sequence.keys);
      for (int64_t key = begin; key < end; key += kKeyBlock) {
        const TilePlace tile{.sequence = &sequence,
                             .head = group * shared,
                             .key = key,
                             .cols = std::min(kKeyBlock, sequence.keys - key)};
        block_of_keys(in, tile, tiles, sums);
        const int64_t row = sequence.first_key + key;
        dk.store_rows(sequence.batch, group, row, tile.cols, tiles.width, tiles.dk.data());
        dv.store_rows(sequence.batch, group, row, tile.cols, tiles.value_width, tiles.dv.data());
      }
      if (parts == 1)
        for (int64_t h = 0; h < shared; ++h) store_dq(pair, h, sums);
    }
  });
  if (parts == 1) return;
  parallel_for(pairs * shared, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t pair = task / shared, h = task % shared;
      const int64_t count = sequence_of(pair).queries * width;
      C* const sums = partial.data() + pair * parts * per_part;
      for (int64_t part = 1; part < parts; ++part) {
        const C* const more = sums + part * per_part + h * count;
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) sums[h * count + i] += more[i];
      }
      store_dq(pair, h, sums);
    }
  });
}

// The gradient of a mask is dS, summed over the dims along which it broadcasts. A task owns a block
// of columns of one matrix of the mask and walks over everything that the mask was added to.
template <class T, class C = gemm_compute_t<T>>
void differentiate_mask(const Backward<C>& in, const View& query, const View& out) {
  const Problem<C>& problem = in.problem;
  const Shape& sizes = out.sizes;
  const int64_t keys = problem.sequences.empty() ? 0 : problem.sequences[0].keys;
  const int64_t key_blocks = blocks_of(keys, kKeyBlock),
                row_blocks = blocks_of(sizes[2], kQueryBlock);
  const bool one_column = sizes[3] == 1 && keys != 1, one_row = sizes[2] == 1;
  const int64_t column_tasks = one_column ? 1 : key_blocks;
  const Target target = Target::of<C>(out);
  const auto own = [](int64_t size, int64_t i, int64_t whole) {  // the indices that entry i covers
    return size == 1 ? std::pair<int64_t, int64_t>{0, whole}
                     : std::pair<int64_t, int64_t>{i, i + 1};
  };
  parallel_for(
      sizes[0] * sizes[1] * row_blocks * column_tasks, 1, [&](int64_t first, int64_t last) {
        Tiles<T> tiles(problem);
        HostScratch<C> sums(kQueryBlock * kKeyBlock);
        for (int64_t task = first; task < last; ++task) {
          const int64_t column = task % column_tasks, block = task / column_tasks % row_blocks;
          const int64_t matrix = task / column_tasks / row_blocks;
          const auto [batch, batch_end] = own(sizes[0], matrix / sizes[1], query.sizes[0]);
          const auto [head, head_end] = own(sizes[1], matrix % sizes[1], problem.heads);
          const int64_t row = one_row ? 0 : block * kQueryBlock;
          const int64_t row_end =
              one_row ? problem.rows : std::min(row + kQueryBlock, problem.rows);
          const int64_t key_end = one_column ? keys : std::min((column + 1) * kKeyBlock, keys);
          std::fill_n(sums.data(), kQueryBlock * kKeyBlock, C(0));
          for (int64_t b = batch; b < batch_end; ++b)
            for (int64_t h = head; h < head_end; ++h)
              for (int64_t key = column * kKeyBlock; key < key_end; key += kKeyBlock) {
                TilePlace tile{.sequence = &problem.sequences[static_cast<size_t>(b)],
                               .head = h,
                               .key = key,
                               .cols = std::min(kKeyBlock, keys - key)};
                load_keys(problem, tile, tiles);
                for (tile.query = row; tile.query < row_end; tile.query += kQueryBlock) {
                  tile.rows = std::min(kQueryBlock, problem.rows - tile.query);
                  load_queries(in, tile, tiles);
                  differentiate_tile(in, tile, tiles);
                  for (int64_t i = 0; i < tile.rows; ++i)
                    for (int64_t j = 0; j < tile.cols; ++j)
                      sums.data()[(one_row ? 0 : i) * kKeyBlock + (one_column ? 0 : j)] +=
                          tiles.ds.data()[i * kKeyBlock + j];
                }
              }
          for (int64_t i = 0; i < (one_row ? 1 : row_end - row); ++i)
            target.store(
                sums.data() + i * kKeyBlock,
                target.data + (matrix / sizes[1] * out.strides[0] +
                               matrix % sizes[1] * out.strides[1] + (row + i) * out.strides[2] +
                               (one_column ? 0 : column * kKeyBlock) * out.strides[3]) *
                                  target.bytes,
                out.strides[3], one_column ? 1 : key_end - column * kKeyBlock);
        }
      });
}

template <class T, class C = gemm_compute_t<T>>
void run(const KernelContext& context, const AttentionAttrs& attrs) {
  const View &query = context.input(1), &logarithms = context.input(5);
  if (optional_input(context, 7))  // tokens of no sequence
    for (const View* out : context.out)
      if (out->numel) std::memset(out->data, 0, out->bytes());
  HostScratch<C> delta(logarithms.numel);
  const Backward<C> in{
      .problem = problem_of<C>(context, 1, optional_input(context, 6), optional_input(context, 7),
                               optional_input(context, 8), attrs),
      .grad = Operand::of<C>(context.input(0)),
      .logarithms = logarithms.as<const C>(),  // contiguous: an output of ours
      .delta = delta.data()};
  dot_rows(in, Operand::of<C>(context.input(4)), optional_input(context, 9), query);
  differentiate<T>(in, Target::of<C>(context.output(0)), Target::of<C>(context.output(1)),
                   Target::of<C>(context.output(2)));
  if (attrs.mask_gradient) differentiate_mask<T>(in, query, context.output(3));
}

void attention_backward_kernel(const KernelContext& context, const AttentionAttrs& attrs) {
  const DType dtype = context.output(0).dtype;
#if defined(__AVX512F__)
  if (multiplies_bfloat16(dtype)) return run<BFloat16>(context, attrs);
#endif
  if (dtype == DType::float64)
    run<double>(context, attrs);
  else
    run<float>(context, attrs);
}

}  // namespace

void register_attention_backward_cpu() {
  attention_backward_op.set_kernel(DeviceType::cpu, attention_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
