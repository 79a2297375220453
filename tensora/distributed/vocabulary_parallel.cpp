#include "tensora/distributed/vocabulary_parallel.h"

#include <algorithm>
#include <limits>

#include "tensora/autograd/function.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::distributed {
namespace {

DType product_dtype(const Tensor& input) {
  const DeviceType device = input.device().type;
  const bool cast = is_autocast_enabled(device) && input.dtype() != kFloat64;
  return cast ? autocast_dtype(device) : input.dtype();
}

// Looked at on the host, so on the CPU only: a GPU would have to be waited for.
void check_classes(std::string_view what, const Tensor& classes, int64_t size,
                   std::optional<int64_t> ignored) {
  if (!classes.is_cpu() || classes.numel() == 0) return;
  Tensor wrong = (classes < 0).logical_or(classes >= size);
  if (ignored) wrong = wrong.logical_and(classes != *ignored);
  check_as<IndexError>(!wrong.any().item<bool>(), what, ": expected tokens of 0 to ", size - 1,
                       ", got ", classes.min().item<int64_t>(), " to ",
                       classes.max().item<int64_t>());
}

void reduce(ProcessGroup& group, const Tensor& data, ReduceOp op) {
  group.all_reduce(data_of(data), op, CallMode::blocking)->wait();
}

struct PickedScores {
  Tensor rows;  // N 1: the target's column here, 0 where it is another rank's
  Tensor here;  // N 1, the scores' dtype: 1 or 0
};
PickedScores pick(const Tensor& classes, const models::IndexRange& own, DType dtype) {
  const Tensor column = (classes - own.begin).unsqueeze(1);
  const Tensor here = (column >= 0).logical_and(column < own.size());
  return {where(here, column, zeros_like(column)), here.to(dtype)};
}

/// Computes the gradients together with the loss; see Note [A loss in pieces] in
/// nn/linear_cross_entropy.cpp.
struct VocabularyLoss : Function<VocabularyLoss> {
  static Tensor forward(Context& context, const Tensor& input /* N D */,
                        const Tensor& weight /* V/ranks D */, const Tensor& target /* N */,
                        const VocabularyPart& vocabulary, int64_t ignore_index, int64_t rows) {
    const DType dtype = product_dtype(input), wide = promote_types(dtype, kFloat32);
    const autocast plain(AutocastOptions{.enabled = false});
    const Tensor x = input.detach().to(dtype), w = weight.detach().to(dtype);
    const int64_t n = x.size(0);
    const bool wants_x = context.needs_input_grad(0), wants_w = context.needs_input_grad(1);
    const Tensor counts = (target != ignore_index).to(wide);
    const Tensor factor = 1 / counts.sum();  // of no target at all the mean is NaN
    Tensor grad_x = wants_x ? empty_like(x) : Tensor();
    Tensor grad_w = wants_w ? zeros_like(weight) : Tensor();
    Tensor sum = zeros({}, {.dtype = wide, .device = x.device()});
    for (int64_t start = 0; start < n; start += rows) {
      const int64_t count = std::min(rows, n - start);
      const Tensor part = x.narrow(0, start, count), used = counts.narrow(0, start, count);
      const Tensor scores = matmul(part, w.t()).to(wide);
      const PickedScores picked =
          pick(target.narrow(0, start, count), vocabulary.rows(), scores.dtype());
      sum = sum + (losses(scores, picked, *vocabulary.group) * used).sum();
      if (!wants_x && !wants_w) continue;
      scores.scatter_add_(1, picked.rows, -picked.here);
      const Tensor grad = scores.mul_((used * factor).unsqueeze(1)).to(dtype);
      if (wants_x) grad_x.narrow(0, start, count).copy_(matmul(grad, w));
      if (wants_w) grad_w.add_(matmul(grad.t(), part).to(weight.dtype()));
    }
    context.save_for_backward({grad_x, grad_w});
    context.data["dtype"] = input.dtype();
    return sum * factor;
  }

  // The loss of each row. The scores become the probabilities of this rank's tokens.
  static Tensor losses(const Tensor& scores, const PickedScores& picked, ProcessGroup& group) {
    const Tensor largest = scores.amax({1}, true);
    reduce(group, largest, ReduceOp::maximum);
    scores.sub_(largest);
    const Tensor target = scores.gather(1, picked.rows) * picked.here;
    scores.exp_();
    const Tensor sums = cat({scores.sum(1, true), target}, 1);
    reduce(group, sums, ReduceOp::sum);
    const Tensor total = sums.narrow(1, 0, 1);
    scores.div_(total);
    return (log(total) - sums.narrow(1, 1, 1)).squeeze(1);
  }

  static TensorList backward(Context& context, const TensorList& grads) {
    check_as<NotImplementedError>(
        !is_grad_enabled(),
        "vocabulary_cross_entropy: the gradient of its gradient is not implemented");
    const TensorList saved = context.saved_tensors();
    const auto scaled = [&](const Tensor& grad, DType dtype) {
      return grad.defined() ? (grad * grads[0].to(grad.dtype())).to(dtype) : grad;
    };
    const DType dtype = std::any_cast<DType>(context.data["dtype"]);
    return {scaled(saved[0], dtype),
            saved[1].defined() ? scaled(saved[1], saved[1].dtype()) : saved[1],
            {},
            {},
            {},
            {}};
  }
};

struct GatherVocabulary : Function<GatherVocabulary> {
  static Tensor forward(Context& context, const Tensor& scores /* N rows */,
                        const VocabularyPart& vocabulary) {
    const models::IndexRange own = vocabulary.rows();
    context.data["rows"] = own;
    // The parts differ by one row at most; the first is the longest.
    const int64_t longest = vocabulary.rows(0).size(), n = scores.size(0);
    const TensorOptions like{.dtype = scores.dtype(), .device = scores.device()};
    const Tensor part = zeros({longest, n}, like);
    part.narrow(0, 0, own.size()).copy_(scores.t());
    ProcessGroup& group = *vocabulary.group;
    const Tensor all = empty({group.size(), longest, n}, like);
    group.all_gather(data_of(all), data_of(part), CallMode::blocking)->wait();
    TensorList columns;
    for (int rank = 0; rank < group.size(); ++rank)
      columns.push_back(all[rank].narrow(0, 0, vocabulary.rows(rank).size()));
    return cat(columns, 0).t().contiguous();
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const auto rows = std::any_cast<models::IndexRange>(context.data["rows"]);
    return {grads[0].narrow(1, rows.begin, rows.size()), {}};
  }
};

}  // namespace

Tensor vocabulary_cross_entropy(const Tensor& input, const Tensor& weight, const Tensor& target,
                                const VocabularyPart& vocabulary,
                                const VocabularyLossOptions& options) {
  constexpr auto name = "vocabulary_cross_entropy";
  check(weight.dim() == 2 && weight.size(0) == vocabulary.rows().size(), name,
        ": expected a weight with this rank's ", vocabulary.rows().size(),
        " rows of the vocabulary, got ", weight.sizes());
  check(input.dim() >= 1 && input.size(-1) == weight.size(1), name,
        ": expected an input … D and a weight V D, got shapes ", input.sizes(), " and ",
        weight.sizes());
  Shape rows = input.sizes();
  rows.resize(rows.size() - 1);
  check(target.sizes() == rows, name, ": expected a target of shape ", rows, ", got ",
        target.sizes());
  check(options.chunk_bytes > 0, name, ": chunk_bytes must be positive, got ", options.chunk_bytes);
  check_classes(name, target, vocabulary.size, options.ignore_index);
  // All ranks cut alike, by the longest part.
  const int64_t row_bytes =
      vocabulary.rows(0).size() *
      static_cast<int64_t>(element_size(promote_types(input.dtype(), kFloat32)));
  const int64_t most = std::max<int64_t>(1, options.chunk_bytes / row_bytes);
  return VocabularyLoss::apply(input.reshape({rows.numel(), input.size(-1)}), weight,
                               target.reshape({rows.numel()}), vocabulary, options.ignore_index,
                               most);
}

Tensor gather_vocabulary(const Tensor& scores, const VocabularyPart& vocabulary) {
  check(scores.dim() >= 1 && scores.size(-1) == vocabulary.rows().size(),
        "gather_vocabulary: expected scores of this rank's ", vocabulary.rows().size(),
        " tokens, got shape ", scores.sizes());
  Shape sizes = scores.sizes();
  sizes[sizes.size() - 1] = vocabulary.size;
  return GatherVocabulary::apply(scores.reshape({-1, scores.size(-1)}), vocabulary).reshape(sizes);
}

LocalTokens local_tokens(const Tensor& tokens, const VocabularyPart& vocabulary) {
  check_classes("embedding", tokens, vocabulary.size, {});
  const models::IndexRange own = vocabulary.rows();
  const Tensor rows = tokens - own.begin;
  const Tensor absent = (rows < 0).logical_or(rows >= own.size());
  return {rows.masked_fill(absent, 0), absent};
}

}  // namespace tensora::distributed
