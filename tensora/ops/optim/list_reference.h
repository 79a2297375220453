#pragma once

// Internal header: the definitions of steps over lists in other ops.

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

/// One parameter of a list in a definition: in float32, or in float64 if the parameter is.
struct Stepped {
  Tensor param, grad, state[3];

  Stepped(Args in, const ListLayout& layout, int64_t i, bool maximize) {
    const DType wide = promote_types(in[layout.param(i)]->dtype(), kFloat32);
    param = to(*in[layout.masters ? layout.master(i) : layout.param(i)], wide);
    grad = to(*in[layout.grad(i)], wide);
    if (layout.scaled) grad = grad / to(reshape(*in[layout.scale()], {}), wide);
    if (maximize) grad = -grad;
    for (int k = 0; k < layout.states; ++k) state[k] = to(*in[layout.state(k, i)], wide);
  }
  // Writes the results in the order of the list, unless the gradients were infinite.
  void store(Tensors& out, Args in, const ListLayout& layout, int64_t i,
             const Tensor& moved) const {
    const auto keep = [&](size_t slot, const Tensor& value) {
      const Tensor& old = *in[slot];
      Tensor fresh = to(value, old.dtype());
      if (layout.guarded) fresh = where(reshape(*in[layout.found_inf()], {}) != 0, old, fresh);
      out[slot] =
          empty_strided(old.sizes(), old.strides(), {.dtype = old.dtype(), .device = old.device()});
      copy_(out[slot], fresh);
    };
    keep(layout.param(i), moved);
    for (int k = 0; k < layout.states; ++k) keep(layout.state(k, i), state[k]);
    if (layout.masters) keep(layout.master(i), moved);
  }
};

/// The numbers of a step, as float64 tensors without dims on the device of `like`.
struct SteppedNumbers {
  Tensor step, lr, product;

  SteppedNumbers(Args in, const ListLayout& layout, const Tensor& like, double step_number,
                 double rate, double product_so_far) {
    const auto number = [&](bool is_tensor, size_t slot, double value) {
      return is_tensor ? to(reshape(*in[slot], {}), kFloat64)
                       : full({}, value, {.dtype = kFloat64, .device = like.device()});
    };
    step = number(layout.counted, layout.step(), step_number);
    lr = number(layout.rated, layout.rate(), rate);
    product = number(layout.carried, layout.product(), product_so_far);
  }
  /// 1 - beta ^ step
  Tensor correction(double beta) const { return 1 - pow(full_like(step, beta), step); }
};

}  // namespace tensora
