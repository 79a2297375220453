#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/norm/softmax_math.h"
#include "tensora/ops/paged/paged_attention_op.h"
#include "tensora/ops/quant/number_readers.h"

// Note [Same bits in every batch]
// What a query sums, and in which order, follows from its position alone: keys are taken in tiles
// that begin at multiples of kTile, tiles in spans that begin at multiples of kSpan. A span's
// result is the largest score, the sum of exponentials relative to it, and the values weighted by
// these; spans are joined in their order. Which queries share a tile of keys, and which thread
// computes a span, changes none of it.

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kTile = 32, kSpan = 512;
constexpr int64_t kMostRows = 32;  // queries times heads that share keys
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One head of one query, and what it has seen so far.
struct Row {
  const float* query;
  float* result;       // padded size numbers
  int64_t begin, end;  // the positions it sees
  float largest, sum;
};

class PagedAttention {
 public:
  PagedAttention(const KernelContext& context, const PagedAttentionAttrs& attrs)
      : context_(context),
        attrs_(attrs),
        heads_(context.input(0).sizes[1]),
        size_(context.input(0).sizes[2]),
        padded_((size_ + 15) / 16 * 16),
        groups_(context.input(1).sizes[1]),
        block_size_(context.input(1).sizes[2]),
        row_bytes_(bytes_of(context.input(1).dtype, size_)),
        scale_(static_cast<float>(attrs.scale.value_or(1 / std::sqrt(static_cast<double>(size_))))),
        load_query_(load_fn<float>(context.input(0).dtype)),
        store_(store_fn<float>(context.output().dtype)) {
    visit_reader(context.input(1).dtype, [&]<class Reader>() { read_ = read_numbers<Reader>; });
    plan();
  }

  void run() const {
    const int64_t units = static_cast<int64_t>(units_.size());
    if (spans_apart_) {
      run_apart();
      return;
    }
    parallel_for(units, 1, [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) Work(*this, units_[static_cast<size_t>(u)]).run();
    });
  }

 private:
  // Consecutive queries of a sequence and the heads that share one head of the cache.
  struct Unit {
    int64_t sequence, group, first, count;  // queries
    int64_t position;                       // of the first query
    int64_t begin, end;                     // positions that any of them sees
    int64_t first_span() const { return begin / kSpan; }
    int64_t spans() const { return end <= begin ? 0 : (end - 1) / kSpan - first_span() + 1; }
  };

  // The rows of a unit and the tile of keys or values that they look at.
  class Work {
   public:
    Work(const PagedAttention& all, const Unit& unit)
        : all_(all),
          unit_(unit),
          shared_(all.heads_ / all.groups_),
          count_(unit.count * shared_),
          memory_((3 * count_ + kTile) * all.padded_ + count_ * (kTile + 1)),
          results_(memory_.data() + count_ * all.padded_),
          tile_(results_ + 2 * count_ * all.padded_),
          weights_(tile_ + kTile * all.padded_),
          shrinks_(weights_ + count_ * kTile),
          rows_(static_cast<size_t>(count_)) {
      for (int64_t r = 0; r < count_; ++r) {
        float* query = memory_.data() + r * all.padded_;
        all.load_query_(all.query_address(token(r), head(r)), 1, all.size_, query);
        for (int64_t d = 0; d < all.size_; ++d) query[d] *= all.scale_;
        std::fill(query + all.size_, query + all.padded_, 0.0f);
        row(r).query = query;
        const int64_t at = unit.position + r / shared_;
        row(r).end = at + 1;
        row(r).begin =
            all.attrs_.window > 0 ? std::max<int64_t>(0, row(r).end - all.attrs_.window) : 0;
      }
    }

    // All spans, one after the other.
    void run() {
      std::vector<Row> totals = rows_;
      for (int64_t r = 0; r < count_; ++r)
        clear(totals[static_cast<size_t>(r)], results_ + r * all_.padded_);
      for (int64_t s = 0; s < unit_.spans(); ++s) {
        span(s, results_ + count_ * all_.padded_);
        for (int64_t r = 0; r < count_; ++r) join(totals[static_cast<size_t>(r)], row(r));
      }
      for (int64_t r = 0; r < count_; ++r) store(r, totals[static_cast<size_t>(r)]);
    }

    // One span alone; `results` has room for the rows.
    void span(int64_t index, float* results) {
      for (int64_t r = 0; r < count_; ++r) clear(row(r), results + r * all_.padded_);
      const int64_t begin = (unit_.first_span() + index) * kSpan;
      const int64_t end = std::min(begin + kSpan, unit_.end);
      for (int64_t at = begin; at < end; at += kTile)
        if (at + kTile > unit_.begin) look_at(at, std::min(at + kTile, end));
    }

    // Joins a later span's result to what was seen before it.
    void join(Row& total, const Row& part) const {
      const float largest = std::max(total.largest, part.largest);
      if (part.largest == -kInfinity && part.sum == 0) return;  // it saw nothing
      const float old = decay(total.largest - largest), fresh = decay(part.largest - largest);
      total.sum = total.sum * old + part.sum * fresh;
      total.largest = largest;
#pragma omp simd
      for (int64_t d = 0; d < all_.padded_; ++d)
        total.result[d] = total.result[d] * old + part.result[d] * fresh;
    }

    void store(int64_t r, const Row& total) const {
      const float inverse = total.sum == 0 ? 0 : 1 / total.sum;
      for (int64_t d = 0; d < all_.size_; ++d) total.result[d] *= inverse;
      const View& out = all_.context_.output();
      all_.store_(
          total.result,
          out.as<char>() + bytes_of(out.dtype, (token(r) * all_.heads_ + head(r)) * all_.size_), 1,
          all_.size_);
    }

    void clear(Row& row, float* result) const {
      row.result = result;
      row.largest = -kInfinity;
      row.sum = 0;
      std::fill_n(result, all_.padded_, 0.0f);
    }
    int64_t count() const { return count_; }
    Row& row(int64_t r) { return rows_[static_cast<size_t>(r)]; }
    const Row& row(int64_t r) const { return rows_[static_cast<size_t>(r)]; }

   private:
    float* weights(int64_t r) const { return weights_ + r * kTile; }
    int64_t token(int64_t r) const { return unit_.first + r / shared_; }
    int64_t head(int64_t r) const { return unit_.group * shared_ + r % shared_; }

    // The keys or values at positions begin to end, as floats.
    void load_tile(size_t cache, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end;) {
        // What a head has in a block lies together.
        const uint8_t* from = all_.cache_address(cache, unit_.sequence, unit_.group, p);
        const int64_t last = std::min(end, (p / all_.block_size_ + 1) * all_.block_size_);
        if (all_.padded_ == all_.size_) {
          all_.read_(from, 0, (last - p) * all_.size_, tile_ + (p - begin) * all_.padded_);
          p = last;
        }
        for (; p < last; ++p, from += all_.row_bytes_)
          all_.read_(from, 0, all_.size_, tile_ + (p - begin) * all_.padded_);
      }
    }

    // Whether rows r to r + N see a whole tile; they are computed together then, and keys and
    // values are loaded once for all of them.
    template <int N>
    bool all_see(int64_t r, int64_t begin) const {
      for (int64_t i = r; i < r + N; ++i)
        if (i >= count_ || row(i).begin > begin || row(i).end < begin + kTile) return false;
      return true;
    }

    void look_at(int64_t begin, int64_t end) {
      load_tile(1, begin, end);
      for (int64_t r = 0; r < count_;) r += score_rows(r, begin, end);
      for (int64_t r = 0; r < count_; ++r)
        shrinks_[r] = sees(r, begin, end) ? weigh(r, from(r, begin), to(r, end) - begin) : 1;
      load_tile(2, begin, end);
      for (int64_t r = 0; r < count_;) r += add_rows(r, begin, end);
    }
    int64_t from(int64_t r, int64_t begin) const {
      return std::max(row(r).begin - begin, int64_t{0});
    }
    int64_t to(int64_t r, int64_t end) const { return std::min(row(r).end, end); }
    bool sees(int64_t r, int64_t begin, int64_t end) const {
      return begin + from(r, begin) < to(r, end);
    }

    // The scores of some rows; returns how many.
    int64_t score_rows(int64_t r, int64_t begin, int64_t end) {
      if (all_see<2>(r, begin)) {
        const float* const queries[] = {row(r).query, row(r + 1).query};
        for (int64_t k = 0; k < kTile; k += 4) score<4>(queries, k, weights(r));
        return 2;
      }
      const float* const queries[] = {row(r).query};
      std::fill_n(weights(r), kTile, -kInfinity);
      int64_t k = from(r, begin);
      for (; k + 4 <= to(r, end) - begin; k += 4) score<4>(queries, k, weights(r));
      for (; k < to(r, end) - begin; ++k) score<1>(queries, k, weights(r));
      return 1;
    }

    // Adds the values to the results of some rows; returns how many.
    int64_t add_rows(int64_t r, int64_t begin, int64_t end) const {
      if (all_see<4>(r, begin)) {
        for (int64_t d = 0; d < all_.padded_; d += 2 * kFloatLanes)
          add_values<4, 2>(r, 0, kTile, d);
        return 4;
      }
      if (!sees(r, begin, end)) return 1;
      const int64_t first = from(r, begin), last = to(r, end) - begin;
      for (int64_t d = 0; d < all_.padded_;) {
        const int64_t left = (all_.padded_ - d) / kFloatLanes;
        d += left >= 8   ? add_values<1, 8>(r, first, last, d)
             : left >= 6 ? add_values<1, 6>(r, first, last, d)
             : left >= 4 ? add_values<1, 4>(r, first, last, d)
                         : add_values<1, 2>(r, first, last, d);
      }
      return 1;
    }

    // Scores of the tile's keys from `from` to `to` become exponentials relative to the largest so
    // far; returns the factor of what was summed before.
    float weigh(int64_t r, int64_t from, int64_t to) {
      Row& row = this->row(r);
      float* const weights = this->weights(r);
      if (all_.attrs_.softcap > 0) cap(weights, from, to);
      float largest = row.largest;
      for (const float score : largest_lanes(weights)) largest = std::max(largest, score);
      float sum = 0;
      const float base = largest == -kInfinity ? 0 : largest;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < kTile; ++i) {
        weights[i] = decay(weights[i] - base);
        sum += weights[i];
      }
      const float shrink = decay(row.largest - base);
      row.sum = row.sum * shrink + sum;
      row.largest = largest;
      return shrink;
    }
    // The largest of a tile's scores is among these.
    static std::array<float, kFloatLanes> largest_lanes(const float* scores) {
      Lanes largest = load_lanes(scores);
      for (int64_t i = kFloatLanes; i < kTile; i += kFloatLanes) {
        const Lanes more = load_lanes(scores + i);
        largest = largest < more ? more : largest;
      }
      return std::bit_cast<std::array<float, kFloatLanes>>(largest);
    }

    // Scores of N keys with Q queries; the sums are taken as if there were four keys.
    template <int N, int Q>
    void score(const float* const (&queries)[Q], int64_t key, float* weights) const {
      Lanes sums[Q][4] = {};
      const float* keys = tile_ + key * all_.padded_;
      for (int64_t d = 0; d < all_.padded_; d += kFloatLanes) {
        Lanes q[Q];
        for (int j = 0; j < Q; ++j) q[j] = load_lanes(queries[j] + d);
        for (int i = 0; i < N; ++i) {
          const Lanes k = load_lanes(keys + i * all_.padded_ + d);
          for (int j = 0; j < Q; ++j) sums[j][i] += q[j] * k;
        }
      }
      for (int j = 0; j < Q; ++j) {
        const FourSums scores = sums_of(sums[j]);
        for (int i = 0; i < N; ++i) weights[j * kTile + key + i] = scores.of[i];
      }
    }

    void cap(float* weights, int64_t from, int64_t to) const {
      const auto limit = static_cast<float>(all_.attrs_.softcap);
      for (int64_t i = from; i < to; ++i) weights[i] = limit * std::tanh(weights[i] / limit);
    }

    // N vectors of R rows' results, from number `d` on; returns how many numbers these are.
    template <int R, int N>
    int64_t add_values(int64_t first_row, int64_t from, int64_t to, int64_t d) const {
      Lanes sums[R][N] = {};
      const float* const values = tile_ + d;
      const float* const weights = this->weights(first_row);
      for (int64_t k = from; k < to; ++k)
        for (int i = 0; i < N; ++i) {
          const Lanes value = load_lanes(values + k * all_.padded_ + i * kFloatLanes);
          for (int r = 0; r < R; ++r) sums[r][i] += value * weights[r * kTile + k];
        }
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < N; ++i) {
          float* result = row(first_row + r).result + d + i * kFloatLanes;
          const Lanes joined = load_lanes(result) * shrinks_[first_row + r] + sums[r][i];
          __builtin_memcpy(result, &joined, sizeof joined);
        }
      return N * kFloatLanes;
    }

    const PagedAttention& all_;
    const Unit& unit_;
    const int64_t shared_, count_;
    const HostScratch<float> memory_;  // queries, and what follows
    float *const results_, *const tile_;
    float *const weights_, *const shrinks_;  // kTile numbers for each row; one
    std::vector<Row> rows_;
  };

  const char* query_address(int64_t token, int64_t head) const {
    const View& query = context_.input(0);
    return query.as<const char>() + bytes_of(query.dtype, (token * heads_ + head) * size_);
  }
  const uint8_t* cache_address(size_t cache, int64_t sequence, int64_t group,
                               int64_t position) const {
    const View &view = context_.input(cache), &table = context_.input(5);
    const int64_t block =
        table.as<const int32_t>()[sequence * table.sizes[1] + position / block_size_];
    check(block >= 0 && block < view.sizes[0], context_.op, ": block ", block, " of sequence ",
          sequence, " is not in a cache of ", view.sizes[0]);
    const int64_t row = (block * groups_ + group) * block_size_ + position % block_size_;
    return view.as<const uint8_t>() + bytes_of(view.dtype, row * size_);
  }

  void plan() {
    const View &starts = context_.input(3), &lengths = context_.input(4);
    const int64_t tokens = context_.input(0).sizes[0], most = context_.input(5).sizes[1];
    const int64_t together = std::max<int64_t>(1, kMostRows / (heads_ / groups_));
    int64_t covered = 0;
    for (int64_t s = 0; s < lengths.sizes[0]; ++s) {
      const int64_t first = starts.as<const int32_t>()[s], last = starts.as<const int32_t>()[s + 1];
      const int64_t length = lengths.as<const int32_t>()[s];
      check(covered <= first && first <= last && last <= tokens, context_.op, ": queries ", first,
            " to ", last, " of sequence ", s, " are not among ", tokens);
      check(length >= 0 && (length + block_size_ - 1) / block_size_ <= most, context_.op,
            ": sequence ", s, " of length ", length, " does not fit into ", most, " blocks of ",
            block_size_);
      zero(covered, first);
      covered = last;
      for (int64_t q = first; q < last; q += together)
        for (int64_t g = 0; g < groups_; ++g)
          add_unit(s, g, q, std::min(together, last - q), length - (last - q));
    }
    zero(covered, tokens);
    int64_t spans = 0;
    for (const Unit& unit : units_) spans += unit.spans();
    const auto units = static_cast<int64_t>(units_.size());
    spans_apart_ = units < 4 * get_num_threads() && spans > units && get_num_threads() > 1;
  }
  void add_unit(int64_t sequence, int64_t group, int64_t first, int64_t count, int64_t position) {
    Unit unit{sequence, group, first, count, position, 0, std::max<int64_t>(0, position + count)};
    if (attrs_.window > 0)
      unit.begin = std::min(unit.end, std::max<int64_t>(0, position + 1 - attrs_.window));
    units_.push_back(unit);
  }
  // Queries that belong to no sequence.
  void zero(int64_t first, int64_t last) const {
    const View& out = context_.output();
    const auto bytes = static_cast<size_t>(bytes_of(out.dtype, (last - first) * heads_ * size_));
    if (last > first)
      std::fill_n(out.as<char>() + bytes_of(out.dtype, first * heads_ * size_), bytes, '\0');
  }

  // Few units with many keys: threads share the spans of a unit.
  void run_apart() const {
    struct Part {
      size_t unit;
      int64_t span, at;  // where its results begin
    };
    std::vector<Part> parts;
    std::vector<int64_t> rows_of;
    int64_t rows = 0;
    for (size_t u = 0; u < units_.size(); ++u)
      for (int64_t s = 0; s < units_[u].spans(); ++s) {
        parts.push_back({u, s, rows});
        rows += units_[u].count * (heads_ / groups_);
      }
    const HostScratch<float> results(rows * padded_);
    std::vector<Row> seen(static_cast<size_t>(rows));
    parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Part& part = parts[static_cast<size_t>(i)];
        Work work(*this, units_[part.unit]);
        work.span(part.span, results.data() + part.at * padded_);
        for (int64_t r = 0; r < work.count(); ++r)
          seen[static_cast<size_t>(part.at + r)] = work.row(r);
      }
    });
    size_t next = 0;
    for (size_t u = 0; u < units_.size(); ++u) {
      const Work work(*this, units_[u]);
      const HostScratch<float> memory(work.count() * padded_);
      std::vector<Row> totals(static_cast<size_t>(work.count()));
      for (int64_t r = 0; r < work.count(); ++r)
        work.clear(totals[static_cast<size_t>(r)], memory.data() + r * padded_);
      for (; next < parts.size() && parts[next].unit == u; ++next)
        for (int64_t r = 0; r < work.count(); ++r)
          work.join(totals[static_cast<size_t>(r)], seen[static_cast<size_t>(parts[next].at + r)]);
      for (int64_t r = 0; r < work.count(); ++r) work.store(r, totals[static_cast<size_t>(r)]);
    }
  }

  const KernelContext& context_;
  const PagedAttentionAttrs& attrs_;
  const int64_t heads_, size_, padded_, groups_, block_size_, row_bytes_;
  const float scale_;
  const LoadFn load_query_;
  void (*read_)(const uint8_t* row, int64_t begin, int64_t count, float* to) = nullptr;
  const StoreFn store_;
  std::vector<Unit> units_;
  bool spans_apart_ = false;
};

void paged_attention_kernel(const KernelContext& context, const PagedAttentionAttrs& attrs) {
  if (context.output().numel == 0) return;
  PagedAttention(context, attrs).run();
}

}  // namespace

void register_paged_attention_cpu() {
  paged_attention_op.set_kernel(DeviceType::cpu, paged_attention_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
