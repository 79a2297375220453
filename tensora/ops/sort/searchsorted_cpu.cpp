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
  parallel_for(input.numel, 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      out.as<Out>()[i] = static_cast<Out>(
          search(i / per_row * search.length, static_cast<C>(input.as<const T>()[i])));
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
