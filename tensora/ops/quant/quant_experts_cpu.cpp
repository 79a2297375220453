// Widest instruction set: AVX-512 VNNI. See Note [One kernel, several instruction sets].
#include <memory>
#include <optional>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/error_kinds.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/matrix/linear_activation_values.h"
#include "tensora/ops/quant/quant_experts_op.h"
#include "tensora/ops/quant/quant_rows.h"

// Note [Experts on the CPU]
// The tokens of each expert that somebody chose are multiplied together, so its weights are read
// once. All experts' products are one parallel loop over the rows of their matrices: a single
// token's few experts keep all threads busy, too. A token's experts are added in the order of their
// numbers, whoever else is in the batch.

namespace tensora::cpu::TENSORA_ISA {
namespace {

using A = QuantExpertsAttrs;

/// Memory with the view that kernels want.
struct Rows {
  Rows(int64_t rows, int64_t columns) : memory(rows * columns) {
    view.data = memory.data();
    view.sizes = {rows, columns};
    view.strides = {columns, 1};
    view.dtype = kFloat32;
    view.update();
  }
  HostScratch<float> memory;
  View view;
};

/// An expert and the tokens that chose it.
struct Visit {
  int64_t expert = 0;
  std::vector<int64_t> pairs = {};  // token * used + number of the choice
  std::unique_ptr<Rows> x = {}, inner = {};
  std::unique_ptr<Activations> activations = {};
};

/// A stack of the experts' matrices.
struct Stack {
  Stack(const KernelContext& context, size_t at, size_t scale_at, int64_t experts)
      : view(context.input(at)), rows(view.sizes[0] / experts) {
    if (scale_at < context.in.size() && context.in[scale_at])
      scale = context.input(scale_at).as<const float>();
  }
  WeightRows of(int64_t expert) const {
    const int64_t row_bytes = bytes_of(view.dtype, view.sizes[1]);
    return {.data = view.as<const uint8_t>() + expert * rows * row_bytes,
            .row_bytes = row_bytes,
            .rows = rows,
            .columns = view.sizes[1]};
  }
  /// Rows first to last of the expert's matrix times the visit's activations.
  void multiply(const Visit& visit, int64_t first, int64_t last, float* out) const {
    const int64_t width = last - first;
    visit.activations->multiply(view.dtype, of(visit.expert), first, last, out, width);
    if (!scale) return;
    const float* const own = scale + visit.expert * rows + first;
    for (int64_t r = 0; r < visit.activations->rows(); ++r)
      for (int64_t j = 0; j < width; ++j) out[r * width + j] *= own[j];
  }

  const View& view;
  int64_t rows;  // of an expert
  const float* scale = nullptr;
};

char* address(const View& view, int64_t element) {
  return view.as<char>() + element * static_cast<int64_t>(element_size(view.dtype));
}

std::vector<Visit> visits_of(const KernelContext& context, int64_t experts) {
  const View& chosen = context.input(A::kChosen);
  std::vector<Visit> all(static_cast<size_t>(experts)), used;
  for (int64_t i = 0; i < chosen.numel; ++i) {
    const int64_t expert = chosen.as<const int64_t>()[i];
    if (expert < 0 || expert >= experts)
      throw IndexError(
          concat("quant_experts: chosen has expert ", expert, ", expected 0 to ", experts - 1));
    all[static_cast<size_t>(expert)].pairs.push_back(i);
  }
  for (int64_t e = 0; e < experts; ++e) {
    Visit& visit = all[static_cast<size_t>(e)];
    if (visit.pairs.empty()) continue;
    visit.expert = e;
    used.push_back(std::move(visit));
  }
  return used;
}

class ExpertLayer {
 public:
  ExpertLayer(const KernelContext& context, const A& attrs)
      : context_(context),
        attrs_(attrs),
        gate_(context, A::kGate, A::kGateScale, attrs.experts),
        up_(context, A::kUp, A::kUpScale, attrs.experts),
        down_(context, A::kDown, A::kDownScale, attrs.experts),
        used_(context.input(A::kChosen).sizes[1]),
        visits_(visits_of(context, attrs.experts)) {}

  void run() {
    for (Visit& visit : visits_) gather(visit);
    each_row(gate_, [&](const Visit& visit, int64_t first, int64_t last, float* sums) {
      gates(visit, first, last, sums);
    });
    for (Visit& visit : visits_) {
      visit.activations = std::make_unique<Activations>(visit.inner->view);
      visit.activations->prepare(down_.view.dtype);
    }
    sum_down();
  }

 private:
  void gather(Visit& visit) const {
    const View& x = context_.input(0);
    const int64_t columns = x.sizes[1], rows = static_cast<int64_t>(visit.pairs.size());
    visit.x = std::make_unique<Rows>(rows, columns);
    for (int64_t r = 0; r < rows; ++r)
      load_fn<float>(x.dtype)(address(x, visit.pairs[static_cast<size_t>(r)] / used_ * columns), 1,
                              columns, visit.x->memory.data() + r * columns);
    visit.inner = std::make_unique<Rows>(rows, gate_.rows);
    visit.activations = std::make_unique<Activations>(visit.x->view);
    visit.activations->prepare(gate_.view.dtype);
    visit.activations->prepare(up_.view.dtype);
  }

  int64_t most_rows() const {
    int64_t most = 0;
    for (const Visit& visit : visits_) most = std::max(most, visit.activations->rows());
    return most;
  }

  /// Calls `body` for up to kRowsAtOnce rows at a time of every visited expert's matrix, with room
  /// for two products.
  template <class Body>
  void each_row(const Stack& stack, const Body& body) const {
    if (visits_.empty()) return;
    const int64_t pieces = (stack.rows + kRowsAtOnce - 1) / kRowsAtOnce, most = most_rows();
    const int64_t grain = std::max<int64_t>(1, rows_per_task(stack.of(0), most) / kRowsAtOnce);
    parallel_for(static_cast<int64_t>(visits_.size()) * pieces, grain,
                 [&](int64_t begin, int64_t end) {
                   const HostScratch<float> room(2 * most * kRowsAtOnce);
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t first = i % pieces * kRowsAtOnce;
                     body(visits_[static_cast<size_t>(i / pieces)], first,
                          std::min(stack.rows, first + kRowsAtOnce), room.data());
                   }
                 });
  }

  void gates(const Visit& visit, int64_t first, int64_t last, float* sums) const {
    const int64_t width = last - first, rows = visit.activations->rows();
    float* const other = sums + rows * width;
    gate_.multiply(visit, first, last, sums);
    up_.multiply(visit, first, last, other);
    visit_activation(attrs_.activation, [&](auto functor) {
      for (int64_t r = 0; r < rows; ++r) {
        float* const to = visit.inner->memory.data() + r * gate_.rows + first;
        const float *gate = sums + r * width, *up = other + r * width;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) to[j] = functor.forward(gate[j]) * up[j];
      }
    });
  }

  // A task has some columns of all tokens' results, and goes through the experts in their order.
  void sum_down() const {
    const View &out = context_.output(), &weights = context_.input(A::kWeights);
    const View* const residual =
        A::kResidual < context_.in.size() ? context_.in[A::kResidual] : nullptr;
    const int64_t columns = down_.rows, tokens = out.sizes[0], most = most_rows();
    // A task reads a part of every visited expert's matrix.
    const int64_t grain =
        rows_per_task(down_.of(0), most * std::max<int64_t>(1, std::ssize(visits_)));
    parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
      const HostScratch<float> products(std::max<int64_t>(1, most * kRowsAtOnce));
      const HostScratch<float> sums(std::max<int64_t>(1, tokens * kRowsAtOnce));
      for (int64_t first = begin; first < end; first += kRowsAtOnce) {
        const int64_t last = std::min(end, first + kRowsAtOnce), width = last - first;
        for (int64_t t = 0; t < tokens; ++t) {
          float* const sum = sums.data() + t * width;
          if (residual)
            load_fn<float>(residual->dtype)(address(*residual, t * columns + first), 1, width, sum);
          else
            std::fill(sum, sum + width, 0.0f);
        }
        for (const Visit& visit : visits_) {
          down_.multiply(visit, first, last, products.data());
          for (size_t r = 0; r < visit.pairs.size(); ++r) {
            const float weight = weights.as<const float>()[visit.pairs[r]];
            float* const sum = sums.data() + visit.pairs[r] / used_ * width;
            const float* const product = products.data() + static_cast<int64_t>(r) * width;
            for (int64_t j = 0; j < width; ++j) sum[j] += product[j] * weight;
          }
        }
        for (int64_t t = 0; t < tokens; ++t)
          store_fn<float>(out.dtype)(sums.data() + t * width, address(out, t * columns + first), 1,
                                     width);
      }
    });
  }

  const KernelContext& context_;
  const A& attrs_;
  const Stack gate_, up_, down_;
  const int64_t used_;
  std::vector<Visit> visits_;
};

void quant_experts_kernel(const KernelContext& context, const A& attrs) {
  if (context.output().numel == 0) return;
  ExpertLayer(context, attrs).run();
}

}  // namespace

void register_quant_experts_cpu() {
  quant_experts_op.set_kernel(DeviceType::cpu, quant_experts_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
