// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/sort/sort.h"

#include <bit>

#include "tensora/backend/cpu/sort_lines.h"
#include "tensora/core/kernel.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class T>
struct SortJob {
  const T* in;
  T* values;
  int64_t* indices;
  LinesOf in_lines, value_lines, index_lines;
  bool descending;

  SortJob(const KernelContext& context, const SortAttrs& attrs, int dim)
      : in(context.input(0).as<const T>()),
        values(context.output(0).as<T>()),
        indices(context.output(1).as<int64_t>()),
        in_lines(context.input(0), dim),
        value_lines(context.output(0), dim),
        index_lines(context.output(1), dim),
        descending(attrs.descending) {}

  template <class Item>
  void load(int64_t line, int64_t begin, int64_t end, Item* to) const {
    load_items(in + in_lines.start(line), in_lines.step, descending, begin, end, to);
  }
  template <class Item>
  void store(int64_t line, int64_t begin, int64_t end, const Item* from) const {
    const T* const source = in + in_lines.start(line);
    T* const value = values + value_lines.start(line);
    int64_t* const index = indices + index_lines.start(line);
    for (int64_t i = begin; i < end; ++i) {
      value[i * value_lines.step] = element_of<T>(from[i], source, in_lines.step, descending);
      index[i * index_lines.step] = index_of(from[i]);
    }
  }
};

constexpr int64_t kGrain = 16 * 1024;

// Elements of eight bytes whose keys differ in 32 bits at most, as integers often do, are packed
// like narrow ones. False if a line has others.
template <class T>
bool sort_near_keys(const SortJob<T>& job, int64_t line) {
  using Key = SortKey<T>;
  constexpr int64_t kChunk = 4096, kFar = int64_t{1} << 32;
  const int64_t n = job.in_lines.length, step = job.in_lines.step;
  const T* const source = job.in + job.in_lines.start(line);
  const Key flip = job.descending ? kKeyMask<T> : 0;
  if (n > kFar) return false;
  Key least = kKeyMask<T>, most = 0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    for (int64_t i = begin; i < std::min(n, begin + kChunk); ++i) {
      const Key key = sort_key(source[i * step]) ^ flip;
      least = std::min(least, key), most = std::max(most, key);
    }
    if (most - least >= Key{kFar}) return false;
  }
  const HostScratch<PackedItem> items(n), spare(n);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      items.data()[i] = make_item<PackedItem>((sort_key(source[i * step]) ^ flip) - least, i);
  });
  const PackedItem* const sorted =
      sort_long(items.data(), spare.data(), n, static_cast<int>(std::bit_width(most - least)));
  T* const value = job.values + job.value_lines.start(line);
  int64_t* const index = job.indices + job.index_lines.start(line);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Key key = (key_of(sorted[i]) + least) ^ flip;
      const int64_t at = index_of(sorted[i]);
      value[i * job.value_lines.step] =
          key_tells<T>(key) ? element_of_key<T>(key) : source[at * step];
      index[i * job.index_lines.step] = at;
    }
  });
  return true;
}

// One line after the other, each by all threads.
template <class T, class Item>
void sort_long_lines(const SortJob<T>& job) {
  const int64_t n = job.in_lines.length;
  const HostScratch<Item> items(n), spare(n);
  for (int64_t line = 0; line < job.in_lines.count; ++line) {
    if constexpr (sizeof(T) == 8)
      if (sort_near_keys(job, line)) continue;
    parallel_for(n, kGrain,
                 [&](int64_t begin, int64_t end) { job.load(line, begin, end, items.data()); });
    const Item* const sorted = sort_long(items.data(), spare.data(), n, kKeyBits<T>);
    parallel_for(n, kGrain,
                 [&](int64_t begin, int64_t end) { job.store(line, begin, end, sorted); });
  }
}

template <class T, class Item>
void sort_short_lines(const SortJob<T>& job) {
  const int64_t n = job.in_lines.length;
  const int64_t together = job.in_lines.step == 1 ? 1 : 16;  // adjacent lines share cache lines
  parallel_for(job.in_lines.count, lines_per_task(job.in_lines), [&](int64_t first, int64_t last) {
    const HostScratch<Item> items(n * together), spare(n);
    for (int64_t group = first; group < last; group += together) {
      const int64_t lines = std::min(together, last - group);
      for (int64_t k = 0; k < lines; ++k) job.load(group + k, 0, n, items.data() + k * n);
      for (int64_t k = 0; k < lines; ++k)
        job.store(group + k, 0, n,
                  sort_in_cache(items.data() + k * n, spare.data(), n, kKeyBits<T>));
    }
  });
}

void sort_kernel(const KernelContext& context, const SortAttrs& attrs) {
  const View& in = context.input(0);
  if (in.numel == 0) return;
  const int dim = wrap_dim(attrs.dim, in.dim(), context.op);
  visit_dtype(in.dtype, [&]<class T>() {
    const SortJob<T> job(context, attrs, dim);
    visit_item<T>(job.in_lines.length, [&]<class Item>() {
      if (job.in_lines.length > kLongLine)
        sort_long_lines<T, Item>(job);
      else
        sort_short_lines<T, Item>(job);
    });
  });
}

}  // namespace

void register_sort_cpu() { sort_op.set_kernel(DeviceType::cpu, sort_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
