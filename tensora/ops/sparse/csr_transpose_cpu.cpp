// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/sparse/csr_transpose.h"

#include <vector>

#include "tensora/base/thread_pool.h"
#include "tensora/ops/sparse/csr_pattern.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// A counting sort. Each part of the entries counts its columns; sums over the parts then say where
// an entry of a part goes, so the result is the same for any number of parts.
class CountingSort {
 public:
  CountingSort(const CsrPattern& pattern, int64_t parts)
      : pattern_(pattern), parts_(parts), next_(static_cast<size_t>(parts * pattern.columns)) {}

  void run(int64_t* begins, int64_t* rows, int64_t* order) {
    each_part([&](int64_t* next, int64_t begin, int64_t end) {
      pattern_.check_columns(begin, end);
      for (int64_t e = begin; e < end; ++e) ++next[pattern_.col[e]];
    });
    int64_t before = 0;
    for (int64_t k = 0; k < pattern_.columns; ++k) {
      begins[k] = before;
      for (int64_t part = 0; part < parts_; ++part)
        before += std::exchange(next_[static_cast<size_t>(part * pattern_.columns + k)], before);
    }
    begins[pattern_.columns] = before;
    each_part([&](int64_t* next, int64_t begin, int64_t end) {
      int64_t row =
          std::upper_bound(pattern_.crow, pattern_.crow + pattern_.rows, begin) - pattern_.crow - 1;
      for (int64_t e = begin; e < end; ++e) {
        while (pattern_.crow[row + 1] <= e) ++row;
        const int64_t to = next[pattern_.col[e]]++;
        rows[to] = row;
        order[to] = e;
      }
    });
  }

 private:
  template <class Body>
  void each_part(const Body& body) {
    parallel_for(parts_, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part)
        body(next_.data() + part * pattern_.columns, pattern_.nnz * part / parts_,
             pattern_.nnz * (part + 1) / parts_);
    });
  }

  const CsrPattern& pattern_;
  int64_t parts_;
  std::vector<int64_t> next_;
};

void csr_transpose_kernel(const KernelContext& context, const CsrTransposeAttrs& attrs) {
  constexpr int64_t kEntries = 32768;  // of a part, at least
  const CsrPattern pattern(context.op, context.input(0), context.input(1), attrs.columns);
  const int64_t most = pattern.nnz / std::max(kEntries, 2 * pattern.columns);
  const int64_t parts = std::clamp<int64_t>(most, 1, get_num_threads());
  CountingSort(pattern, parts)
      .run(context.output(0).as<int64_t>(), context.output(1).as<int64_t>(),
           context.output(2).as<int64_t>());
}

}  // namespace

void register_csr_transpose_cpu() {
  csr_transpose_op.set_kernel(DeviceType::cpu, csr_transpose_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
