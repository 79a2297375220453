#include "tensora/nn/linear_cross_entropy.h"

#include <algorithm>

#include "tensora/autograd/function.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/unit_gradient.h"
#include "tensora/base/check.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/loss/cross_entropy_gradient_op.h"
#include "tensora/ops/matrix/wide_product_op.h"

namespace tensora::nn {

namespace {

/// What products run in: autocast's dtype inside its scope, else the input's.
DType product_dtype(const Tensor& input) {
  const DeviceType device = input.device().type;
  const bool cast = is_autocast_enabled(device) && input.dtype() != kFloat64;
  return cast ? autocast_dtype(device) : input.dtype();
}

/// Of 16-bit scores too in float32: under autocast the op reads them as they are and returns that.
Tensor wide_cross_entropy(const Tensor& scores, const Tensor& target, int64_t ignore_index,
                          Reduction reduction) {
  const autocast wide(AutocastOptions{.device = scores.device()});
  return cross_entropy(scores, target, {}, ignore_index, reduction);
}

/// Note [A loss in pieces]
/// The scores of a vocabulary are the largest array of a language model, and their gradient is the
/// second largest. Both are needed for one product each, so the loss of a few rows is followed at
/// once by the gradients of these rows, which take the memory of the scores: afterwards only the
/// gradients of input and weight are left. They belong to a loss gradient of 1, by which the
/// backward multiplies.
struct ChunkedLoss : Function<ChunkedLoss> {
  static Tensor forward(Context& context, const Tensor& input /* N D */,
                        const Tensor& weight /* V D */, const Tensor& target /* N */,
                        int64_t ignore_index, int64_t rows) {
    const DType dtype = product_dtype(input), wide = promote_types(dtype, kFloat32);
    const autocast plain(AutocastOptions{.enabled = false});
    const no_grad silent;
    const Tensor x = input.detach().to(dtype), w = weight.detach().to(dtype);
    const int64_t n = x.size(0);
    const bool wants_x = context.needs_input_grad(0), wants_w = context.needs_input_grad(1);
    // A mean of those that are not ignored; of none it is NaN.
    const Tensor factor = 1 / (target != ignore_index).sum().to(wide);
    Tensor grad_x = wants_x ? empty_like(x) : Tensor(), grad_w;
    Tensor losses = empty({n}, {.dtype = wide, .device = x.device()});
    for (int64_t start = 0; start < n; start += rows) {
      const int64_t count = std::min(rows, n - start);
      const Tensor part = x.narrow(0, start, count), classes = target.narrow(0, start, count);
      const Tensor scores = matmul(part, w.t());
      if (!wants_x && !wants_w) {
        losses.narrow(0, start, count)
            .copy_(wide_cross_entropy(scores, classes, ignore_index, Reduction::none));
        continue;
      }
      apply_inplace(cross_entropy_gradient_op,
                    {scores, losses.narrow(0, start, count), classes, factor}, {ignore_index});
      const Tensor& grad = scores;
      if (wants_x) grad_x.narrow(0, start, count).addmm_(grad, w, 0, 1);
      if (wants_w) add_product(grad_w, grad, part, weight.dtype());
    }
    context.save_for_backward({grad_x, grad_w});
    context.data["dtype"] = input.dtype();
    return losses.sum() * factor;
  }

  static void add_product(Tensor& sum, const Tensor& grad, const Tensor& part, DType dtype) {
    if (dtype == kFloat32 && grad.dtype() != kFloat32 &&
        add_wide_product_op.has_kernel(grad.device().type)) {
      if (!sum.defined())
        sum = zeros({grad.size(1), part.size(1)}, {.dtype = dtype, .device = grad.device()});
      apply_inplace(add_wide_product_op, {sum, grad.t(), part});
    } else if (!sum.defined()) {
      sum = matmul(grad.t(), part).to(dtype);
    } else if (sum.dtype() == grad.dtype()) {
      sum.addmm_(grad.t(), part);
    } else {
      sum.add_(matmul(grad.t(), part));
    }
  }

  static TensorList backward(Context& context, const TensorList& grads) {
    const TensorList saved = context.saved_tensors();
    const bool unit = !is_grad_enabled() && is_unit_gradient(grads[0]);
    const auto scaled = [&](const Tensor& grad, DType dtype) {
      if (!grad.defined()) return grad;
      return (unit ? grad : grad * grads[0].to(grad.dtype())).to(dtype);
    };
    const DType dtype = std::any_cast<DType>(context.data["dtype"]);
    return {scaled(saved[0], dtype),
            saved[1].defined() ? scaled(saved[1], saved[1].dtype()) : saved[1],
            {},
            {},
            {}};
  }
};

}  // namespace

Tensor linear_cross_entropy(const Tensor& input, const Tensor& weight, const Tensor& target,
                            const LinearCrossEntropyOptions& options) {
  constexpr auto name = "linear_cross_entropy";
  check(weight.dim() == 2 && input.dim() >= 1 && input.size(-1) == weight.size(1), name,
        ": expected an input … D and a weight V D, got shapes ", input.sizes(), " and ",
        weight.sizes());
  Shape rows = input.sizes();
  rows.resize(rows.size() - 1);
  check(target.sizes() == rows, name, ": expected a target of shape ", rows, ", got ",
        target.sizes());
  check(options.chunk_bytes > 0, name, ": chunk_bytes must be positive, got ", options.chunk_bytes);
  const Tensor flat = input.reshape({rows.numel(), input.size(-1)});
  const Tensor classes = target.reshape({rows.numel()});
  const int64_t row_bytes =
      weight.size(0) * static_cast<int64_t>(tensora::element_size(product_dtype(input)));
  const int64_t most = std::max<int64_t>(1, options.chunk_bytes / std::max<int64_t>(1, row_bytes));
  if (rows.numel() <= most)
    return wide_cross_entropy(linear(flat, weight), classes, options.ignore_index, Reduction::mean);
  // Pieces of one size, a multiple of 128 where possible.
  const int64_t pieces = (rows.numel() + most - 1) / most;
  int64_t size = (rows.numel() + pieces - 1) / pieces;
  if (size > 128) size = std::min(most, (size + 127) / 128 * 128);
  if (!is_grad_enabled())
    return ChunkedLoss::apply(flat.detach(), weight.detach(), classes, options.ignore_index, size);
  return ChunkedLoss::apply(flat, weight, classes, options.ignore_index, size);
}

}  // namespace tensora::nn
