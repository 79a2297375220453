// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/sort/topk.h"

#include "tensora/backend/cpu/select.h"
#include "tensora/core/kernel.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class T, class Item>
class TopkLines {
 public:
  using Least = LeastItems<T, Item>;

  TopkLines(const KernelContext& context, const TopkAttrs& attrs, int dim)
      : in_(context.input(0).as<const T>()),
        values_(context.output(0).as<T>()),
        indices_(context.output(1).as<int64_t>()),
        in_lines_(context.input(0), dim),
        value_lines_(context.output(0), dim),
        index_lines_(context.output(1), dim),
        k_(value_lines_.length),
        largest_(attrs.largest) {}

  void run() const {
    constexpr int64_t kMany = 64 * 1024;
    const int64_t n = in_lines_.length;
    if (k_ > kMany || (k_ > n / 8 && n > 64))
      return n > kLongLine ? sort_long_lines() : sort_lines();
    // A line is split where there are few of them, and they are long.
    const int64_t parts = in_lines_.count >= get_num_threads()
                              ? 1
                              : std::clamp<int64_t>(n / kLongLine, 1, get_num_threads());
    if (parts > 1) return select_split(parts);
    const int64_t capacity = Least::capacity_for(k_);
    parallel_for(in_lines_.count, lines_per_task(in_lines_), [&](int64_t first, int64_t last) {
      const HostScratch<Item> buffer(capacity);
      for (int64_t line = first; line < last; ++line) {
        Least least(buffer.data(), capacity, k_);
        look_at(least, line, 0, n);
        least.finish();
        std::sort(buffer.data(), buffer.data() + k_);
        store(line, buffer.data());
      }
    });
  }

 private:
  // So many are wanted that sorting everything is faster.
  void sort_lines() const {
    const int64_t n = in_lines_.length;
    parallel_for(in_lines_.count, lines_per_task(in_lines_), [&](int64_t first, int64_t last) {
      const HostScratch<Item> items(n), spare(n);
      for (int64_t line = first; line < last; ++line) {
        load(line, 0, n, items.data());
        store(line, sort_in_cache(items.data(), spare.data(), n, kKeyBits<T>));
      }
    });
  }
  void sort_long_lines() const {
    const int64_t n = in_lines_.length;
    const HostScratch<Item> items(n), spare(n);
    for (int64_t line = 0; line < in_lines_.count; ++line) {
      parallel_for(n, 16 * 1024,
                   [&](int64_t begin, int64_t end) { load(line, begin, end, items.data()); });
      store(line, sort_long(items.data(), spare.data(), n, kKeyBits<T>));
    }
  }
  void select_split(int64_t parts) const {
    const int64_t capacity = Least::capacity_for(k_), n = in_lines_.length;
    const HostScratch<Item> buffers(parts * capacity);
    std::vector<int64_t> counts(static_cast<size_t>(parts));
    for (int64_t line = 0; line < in_lines_.count; ++line) {
      parallel_for(parts, 1, [&](int64_t first, int64_t last) {
        for (int64_t part = first; part < last; ++part) {
          Least least(buffers.data() + part * capacity, capacity, k_);
          look_at(least, line, n * part / parts, n * (part + 1) / parts);
          counts[static_cast<size_t>(part)] = least.finish();
        }
      });
      Item* end = buffers.data() + counts[0];
      for (int64_t part = 1; part < parts; ++part)
        end = std::copy_n(buffers.data() + part * capacity, counts[static_cast<size_t>(part)], end);
      std::partial_sort(buffers.data(), buffers.data() + k_, end);
      store(line, buffers.data());
    }
  }
  void look_at(Least& least, int64_t line, int64_t begin, int64_t end) const {
    least.look_at(in_ + in_lines_.start(line), in_lines_.step, largest_, begin, end);
  }
  void load(int64_t line, int64_t begin, int64_t end, Item* to) const {
    load_items(in_ + in_lines_.start(line), in_lines_.step, largest_, begin, end, to);
  }
  void store(int64_t line, const Item* sorted) const {
    const T* const source = in_ + in_lines_.start(line);
    T* const value = values_ + value_lines_.start(line);
    int64_t* const index = indices_ + index_lines_.start(line);
    for (int64_t i = 0; i < k_; ++i) {
      value[i * value_lines_.step] = element_of<T>(sorted[i], source, in_lines_.step, largest_);
      index[i * index_lines_.step] = index_of(sorted[i]);
    }
  }

  const T* in_;
  T* values_;
  int64_t* indices_;
  LinesOf in_lines_, value_lines_, index_lines_;
  int64_t k_;
  bool largest_;
};

void topk_kernel(const KernelContext& context, const TopkAttrs& attrs) {
  const View& in = context.input(0);
  if (context.output().numel == 0) return;
  const int dim = wrap_dim(attrs.dim, in.dim(), context.op);
  visit_dtype(in.dtype, [&]<class T>() {
    visit_item<T>(in.dim() == 0 ? 1 : in.sizes[dim],
                  [&]<class Item>() { TopkLines<T, Item>(context, attrs, dim).run(); });
  });
}

}  // namespace

void register_topk_cpu() { topk_op.set_kernel(DeviceType::cpu, topk_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
