// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/sort/kthvalue.h"

#include <atomic>

#include "tensora/backend/cpu/parts.h"
#include "tensora/backend/cpu/select.h"
#include "tensora/core/kernel.h"
#include "tensora/ops/sort/rank.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

/// One element of each line. The outputs are in row-major order, one element per line.
template <class T, class Item>
class ChosenOfLines {
 public:
  ChosenOfLines(const View& in, int dim, const RankRule& rule, T* values, int64_t* indices)
      : in_(in.as<const T>()), lines_(in, dim), rule_(rule), values_(values), indices_(indices) {}

  void run() const {
    const int64_t n = lines_.length;
    if (n > kLongLine && lines_.count < 4 * get_num_threads()) return run_long();
    parallel_for(lines_.count, lines_per_task(lines_), [&](int64_t first, int64_t last) {
      const HostScratch<Item> items(n);
      for (int64_t line = first; line < last; ++line) {
        const T* const from = in_ + lines_.start(line);
        load_items(from, lines_.step, false, 0, n, items.data());
        const int64_t rank = rule_.rank(n, nans(items.data(), 0, n));
        std::nth_element(items.data(), items.data() + rank, items.data() + n);
        store(line, from, items.data()[rank]);
      }
    });
  }

 private:
  void run_long() const {
    constexpr int64_t kGrain = 16 * 1024;
    const int64_t n = lines_.length;
    const HostScratch<Item> items(n), spare(n);
    for (int64_t line = 0; line < lines_.count; ++line) {
      const T* const from = in_ + lines_.start(line);
      std::atomic<int64_t> nan_count = 0;
      parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
        load_items(from, lines_.step, false, begin, end, items.data());
        nan_count += nans(items.data(), begin, end);
      });
      store(line, from,
            select_long(items.data(), spare.data(), n, rule_.rank(n, nan_count), kKeyBits<T>));
    }
  }
  static int64_t nans(const Item* items, int64_t begin, int64_t end) {
    int64_t count = 0;
    if constexpr (KeyTraits<T>::kFloating)
      for (int64_t i = begin; i < end; ++i) count += key_of(items[i]) == kKeyMask<T>;
    return count;
  }
  void store(int64_t line, const T* from, const Item& item) const {
    values_[line] = element_of<T>(item, from, lines_.step, false);
    if (indices_) indices_[line] = index_of(item);
  }

  const T* in_;
  LinesOf lines_;
  RankRule rule_;
  T* values_;
  int64_t* indices_;
};

void choose(const KernelContext& context, const View& in, int dim, const RankRule& rule) {
  if (context.output().numel == 0) return;
  int64_t* const indices = context.out.size() > 1 ? context.output(1).as<int64_t>() : nullptr;
  visit_dtype(in.dtype, [&]<class T>() {
    visit_item<T>(in.dim() == 0 ? 1 : in.sizes[dim], [&]<class Item>() {
      ChosenOfLines<T, Item>(in, dim, rule, context.output().as<T>(), indices).run();
    });
  });
}

void kthvalue_kernel(const KernelContext& context, const KthvalueAttrs& attrs) {
  const View& in = context.input(0);
  choose(context, in, wrap_dim(attrs.dim, in.dim(), context.op), {RankRule::Kind::kth, attrs.k});
}

template <RankRule::Kind kind>
void median_dim_kernel(const KernelContext& context, const MedianAttrs& attrs) {
  const View& in = context.input(0);
  choose(context, in, wrap_dim(attrs.dim, in.dim(), context.op), {kind});
}

// Of all elements: as one line, copied if they do not lie so.
template <RankRule::Kind kind>
void median_kernel(const KernelContext& context, const NoAttrs&) {
  const View& in = context.input(0);
  View line = in;
  line.sizes = {in.numel};
  line.strides = {1};
  line.contiguous = true;
  if (in.contiguous) return choose(context, line, 0, {kind});
  const HostScratch<char> copy(static_cast<int64_t>(in.bytes()));
  View dense = in;
  dense.data = line.data = copy.data();
  dense.strides = contiguous_strides(in.sizes);
  dense.update();
  copy_elements(in, dense);
  choose(context, line, 0, {kind});
}

}  // namespace

void register_kthvalue_cpu() {
  using Kind = RankRule::Kind;
  kthvalue_op.set_kernel(DeviceType::cpu, kthvalue_kernel);
  median_dim_op.set_kernel(DeviceType::cpu, median_dim_kernel<Kind::median>);
  nanmedian_dim_op.set_kernel(DeviceType::cpu, median_dim_kernel<Kind::nanmedian>);
  median_op.set_kernel(DeviceType::cpu, median_kernel<Kind::median>);
  nanmedian_op.set_kernel(DeviceType::cpu, median_kernel<Kind::nanmedian>);
}

}  // namespace tensora::cpu::TENSORA_ISA
