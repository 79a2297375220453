// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/backend/cpu/parts.h"
#include "tensora/core/kernel.h"
#include "tensora/ops/sort/searchsorted_op.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class T, class C>
struct Search {
  const T* sequence;
  const int64_t* sorter;  // or null
  int64_t length;
  bool right;
  std::string_view op;

  C at(int64_t row, int64_t i) const {
    if (sorter) {
      i = sorter[row + i];
      if (i < 0 || i >= length) [[unlikely]]
        fail(op, ": sorter holds ", i, ", which is out of bounds for a dimension of size ", length);
    }
    return static_cast<C>(sequence[row + i]);
  }
  // How many elements of a row come before the value's place. The comparisons are negated so that
  // NaN goes to the end.
  int64_t operator()(int64_t row, C value) const {
    int64_t begin = 0, count = length;
    while (count > 0) {
      const int64_t half = count / 2;
      const C middle = at(row, begin + half);
      const bool before = right ? !(middle > value) : !(middle >= value);
      begin = before ? begin + half + 1 : begin;
      count = before ? count - half - 1 : half;
    }
    return begin;
  }

  // Several values of a row in step, each as above: they wait for memory at the same time.
  template <int kMany>
  [[gnu::noinline]] void several(int64_t row, const T* values, int64_t* found) const {
    int64_t begin[kMany] = {}, count[kMany];
    for (int64_t& n : count) n = length;
    for (int64_t longest = length; longest > 0; longest /= 2)
      for (int k = 0; k < kMany; ++k) {
        const int64_t half = count[k] / 2, middle = begin[k] + half;
        const C element = static_cast<C>(sequence[row + std::min(middle, length - 1)]);
        const C value = static_cast<C>(values[k]);
        const bool before = (count[k] > 0) & (right ? !(element > value) : !(element >= value));
        begin[k] = before ? middle + 1 : begin[k];
        count[k] = before ? count[k] - half - 1 : half;
      }
    for (int k = 0; k < kMany; ++k) found[k] = begin[k];
  }
};

template <class T, class Out>
void search_all(const KernelContext& context, const SearchsortedAttrs& attrs) {
  using C = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
  const View &sequence = context.input(0), &input = context.input(1), &out = context.output();
  const bool sorted = context.in.size() < 3 || !context.in[2];
  const Search<T, C> search{sequence.as<const T>(),
                            sorted ? nullptr : context.input(2).as<const int64_t>(),
                            sequence.sizes.back(), attrs.right, context.op};
  const int64_t per_row = sequence.dim() == 1 ? input.numel : input.sizes.back();
  constexpr int kMany = 8;
  const T* const values = input.as<const T>();
  Out* const to = out.as<Out>();
  parallel_for(input.numel, 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t row = i / per_row, row_end = std::min(end, (row + 1) * per_row);
      const int64_t at = row * search.length;
      int64_t found[kMany];
      for (; sorted && search.length > 0 && i + kMany <= row_end; i += kMany) {
        search.template several<kMany>(at, values + i, found);
        for (int k = 0; k < kMany; ++k) to[i + k] = static_cast<Out>(found[k]);
      }
      for (; i < row_end; ++i) to[i] = static_cast<Out>(search(at, static_cast<C>(values[i])));
    }
  });
}

void searchsorted_kernel(const KernelContext& context, const SearchsortedAttrs& attrs) {
  if (context.output().numel == 0) return;
  check(context.output().data != context.input(0).data, context.op,
        "_: the result, of positions, cannot be stored in place");
  visit_dtype(context.input(1).dtype, [&]<class T>() {
    if (attrs.out_int32)
      search_all<T, int32_t>(context, attrs);
    else
      search_all<T, int64_t>(context, attrs);
  });
}

}  // namespace

void register_searchsorted_cpu() {
  searchsorted_op.set_kernel(DeviceType::cpu, searchsorted_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
