#pragma once

// The dtypes of results under autocast to bfloat16, as PyTorch 2.15 has them on the CPU and on
// CUDA.

#include <functional>
#include <string>
#include <vector>

#include "tests/helpers.h"

namespace tensora::testing {

struct AutocastRow {
  std::string name;
  std::function<Tensor(Device)> run;
  DType cpu, gpu;
};

inline std::vector<AutocastRow> autocast_table() {
  constexpr DType half = kBFloat16, full = kFloat32;
  // Elements between 0.1 and 0.9, where every function is defined.
  const auto f = [](Device device, const Shape& sizes) {
    return rand(sizes, {.device = device}) * 0.8 + 0.1;
  };
  const auto h = [=](Device device, const Shape& sizes) { return f(device, sizes).to(kBFloat16); };
  const auto classes = [](Device device) {
    return tensor({0, 1, 2, 3}, {.dtype = kInt64}).to(device);
  };
  std::vector<AutocastRow> rows;
  const auto unary = [&](std::string name, auto function, DType cpu, DType gpu) {
    rows.push_back({std::move(name), [=](Device d) { return function(h(d, {4, 4})); }, cpu, gpu});
  };
  const auto pair = [&](std::string name, auto function, DType cpu, DType gpu) {
    rows.push_back({std::move(name),
                    [=](Device d) {
                      return function(h(d, {4, 4}), h(d, {4, 4}));
                    },
                    cpu, gpu});
  };
  const auto products = [&](std::string name, auto function, DType cpu, DType gpu) {
    rows.push_back({std::move(name),
                    [=](Device d) {
                      return function(f(d, {4, 4}), f(d, {4, 4}));
                    },
                    cpu, gpu});
  };
  const auto row = [&](std::string name, DType cpu, DType gpu,
                       std::function<Tensor(Device)> function) {
    rows.push_back({std::move(name), std::move(function), cpu, gpu});
  };
  using T = const Tensor&;

  unary(
      "exp", [](T x) { return exp(x); }, half, full);
  unary(
      "exp2", [](T x) { return exp2(x); }, half, half);
  unary(
      "expm1", [](T x) { return expm1(x); }, half, full);
  unary(
      "log", [](T x) { return log(x); }, half, full);
  unary(
      "log10", [](T x) { return log10(x); }, half, full);
  unary(
      "log2", [](T x) { return log2(x); }, half, full);
  unary(
      "log1p", [](T x) { return log1p(x); }, half, full);
  unary(
      "reciprocal", [](T x) { return reciprocal(x); }, half, full);
  unary(
      "rsqrt", [](T x) { return rsqrt(x); }, half, full);
  unary(
      "sqrt", [](T x) { return sqrt(x); }, half, half);
  unary(
      "sinh", [](T x) { return sinh(x); }, half, full);
  unary(
      "cosh", [](T x) { return cosh(x); }, half, full);
  unary(
      "tan", [](T x) { return tan(x); }, half, full);
  unary(
      "acos", [](T x) { return acos(x); }, half, full);
  unary(
      "asin", [](T x) { return asin(x); }, half, full);
  unary(
      "erfinv", [](T x) { return erfinv(x); }, half, full);
  unary(
      "tanh", [](T x) { return tanh(x); }, half, half);
  unary(
      "sigmoid", [](T x) { return sigmoid(x); }, half, half);
  unary(
      "softplus", [](T x) { return softplus(x); }, half, full);
  unary(
      "gelu", [](T x) { return gelu(x); }, half, half);
  unary(
      "silu", [](T x) { return silu(x); }, half, half);
  unary(
      "square", [](T x) { return square(x); }, half, full);
  unary(
      "pow 2", [](T x) { return pow(x, 2); }, half, full);
  unary(
      "pow 0.5", [](T x) { return pow(x, 0.5); }, half, full);
  unary(
      "pow 3", [](T x) { return pow(x, 3); }, half, full);
  unary(
      "2 to the power", [](T x) { return pow(2.0, x); }, half, full);
  pair(
      "pow", [](T x, T y) { return pow(x, y); }, half, full);

  products(
      "mm", [](T x, T y) { return mm(x, y); }, half, half);
  products(
      "matmul", [](T x, T y) { return matmul(x, y); }, half, half);
  products(
      "matmul of vectors", [](T x, T y) { return matmul(x[0], y[0]); }, half, half);
  products(
      "mv", [](T x, T y) { return mv(x, y[0]); }, full, half);
  products(
      "addmm", [](T x, T y) { return addmm(x, x, y); }, half, half);
  products(
      "addmv", [](T x, T y) { return addmv(x[0], x, y[0]); }, full, half);
  products(
      "addr", [](T x, T y) { return addr(x, x[0], y[0]); }, full, half);
  products(
      "dot", [](T x, T y) { return dot(x[0], y[0]); }, full, full);
  products(
      "vdot", [](T x, T y) { return vdot(x[0], y[0]); }, full, full);
  products(
      "inner", [](T x, T y) { return inner(x, y); }, half, full);
  products(
      "outer", [](T x, T y) { return outer(x[0], y[0]); }, full, full);
  products(
      "kron", [](T x, T y) { return kron(x, y); }, full, full);
  products(
      "linear", [](T x, T y) { return linear(x, y, x[0]); }, half, half);
  products(
      "linear_activation", [](T x, T y) { return linear_activation(x, y, x[0], "relu"); }, half,
      half);
  products(
      "bmm", [](T x, T y) { return bmm(x.unsqueeze(0), y.unsqueeze(0)); }, half, half);
  products(
      "baddbmm", [](T x, T y) { return baddbmm(x.unsqueeze(0), x.unsqueeze(0), y.unsqueeze(0)); },
      half, half);
  products(
      "addbmm", [](T x, T y) { return addbmm(x, x.unsqueeze(0), y.unsqueeze(0)); }, half, half);
  products(
      "chain_matmul",
      [](T x, T y) {
        return chain_matmul({x, y});
      },
      half, half);
  products(
      "multi_dot",
      [](T x, T y) {
        return linalg::multi_dot({x, y});
      },
      half, half);
  products(
      "vecdot", [](T x, T y) { return linalg::vecdot(x, y); }, half, half);
  products(
      "einsum",
      [](T x, T y) {
        return einsum("ij,jk->ik", {x, y});
      },
      half, half);
  products(
      "einsum that transposes", [](T x, T) { return einsum("ij->ji", {x}); }, full, half);
  products(
      "tensordot", [](T x, T y) { return tensordot(x, y, 1); }, half, full);
  products(
      "matrix_power", [](T x, T) { return linalg::matrix_power(x, 3); }, half, half);
  products(
      "prelu", [](T x, T y) { return prelu(x, y[0]); }, half, half);
  products(
      "bilinear",
      [](T x, T y) {
        return bilinear(x, y, x.unsqueeze(0).expand({4, 4, 4}));
      },
      full, full);
  row("bilinear of halves", half, half, [=](Device d) {
    return bilinear(h(d, {4, 4}), h(d, {4, 4}), h(d, {4, 4, 4}), h(d, {4}));
  });
  pair(
      "tensordot of halves", [](T x, T y) { return tensordot(x, y, 1); }, half, half);
  row("linear of both", half, half, [=](Device d) {
    return linear(h(d, {4, 4}), f(d, {4, 4}), f(d, {4}));
  });
  pair(
      "cdist", [](T x, T y) { return cdist(x, y); }, full, full);
  pair(
      "dist", [](T x, T y) { return dist(x, y); }, half, full);
  pair(
      "pairwise_distance", [](T x, T y) { return pairwise_distance(x, y); }, half, full);
  pair(
      "cosine_similarity", [](T x, T y) { return cosine_similarity(x, y); }, half, full);
  unary(
      "renorm", [](T x) { return renorm(x, 2, 0, 1.0); }, half, full);

  row("conv1d", half, half, [=](Device d) { return conv1d(f(d, {1, 2, 5}), f(d, {2, 2, 3})); });
  row("conv2d", half, half, [=](Device d) {
    return conv2d(f(d, {1, 2, 5, 5}), f(d, {2, 2, 3, 3}), f(d, {2}));
  });
  row("conv3d", half, half, [=](Device d) {
    return conv3d(f(d, {1, 2, 5, 5, 5}), f(d, {2, 2, 3, 3, 3}));
  });
  row("conv_transpose2d", half, half, [=](Device d) {
    return conv_transpose2d(f(d, {1, 2, 5, 5}), f(d, {2, 2, 3, 3}));
  });
  row("attention", half, half, [=](Device d) {
    const Tensor x = f(d, {1, 2, 4, 8});
    return scaled_dot_product_attention(x, x, x);
  });
  row("attention of both", half, half, [=](Device d) {
    const Tensor x = f(d, {1, 2, 4, 8}), y = h(d, {1, 2, 4, 8});
    return scaled_dot_product_attention(x, y, y, f(d, {4, 4}));
  });

  unary(
      "layer_norm", [](T x) { return layer_norm(x, {4}); }, half, full);
  row("layer_norm with weights", half, full, [=](Device d) {
    return layer_norm(h(d, {4, 4}), {4}, f(d, {4}), f(d, {4}));
  });
  unary(
      "rms_norm", [](T x) { return rms_norm(x, {4}); }, half, full);
  row("rms_norm with weights", half, full, [=](Device d) {
    return rms_norm(h(d, {4, 4}), {4}, f(d, {4}));
  });
  unary(
      "group_norm", [](T x) { return group_norm(x, 2); }, half, full);
  row("batch_norm", half, half, [=](Device d) {
    return batch_norm(h(d, {2, 4, 3}), f(d, {4}), f(d, {4}), f(d, {4}), f(d, {4}), true);
  });
  row("local_response_norm", half, full, [=](Device d) {
    return local_response_norm(h(d, {2, 4, 3}), 2);
  });
  unary(
      "normalize", [](T x) { return normalize(x); }, half, full);
  unary(
      "softmax", [](T x) { return softmax(x, -1); }, half, full);
  unary(
      "softmax with dtype", [](T x) { return softmax(x, -1, kBFloat16); }, half, half);
  unary(
      "log_softmax", [](T x) { return log_softmax(x, -1); }, half, full);
  unary(
      "softmin", [](T x) { return softmin(x, -1); }, half, full);
  unary(
      "gumbel_softmax", [](T x) { return gumbel_softmax(x); }, half, full);
  unary(
      "sum", [](T x) { return sum(x); }, half, full);
  unary(
      "sum of a dim", [](T x) { return sum(x, {0}); }, half, full);
  unary(
      "sum with dtype", [](T x) { return sum(x, kBFloat16); }, half, half);
  unary(
      "mean", [](T x) { return mean(x); }, half, half);
  unary(
      "prod", [](T x) { return prod(x); }, full, full);
  unary(
      "prod with dtype", [](T x) { return prod(x, kBFloat16); }, half, half);
  unary(
      "logsumexp", [](T x) { return logsumexp(x, {0}); }, half, full);
  unary(
      "cumsum", [](T x) { return cumsum(x, 0); }, half, full);
  unary(
      "cumsum with dtype", [](T x) { return cumsum(x, 0, kBFloat16); }, half, half);
  unary(
      "cumprod", [](T x) { return cumprod(x, 0); }, half, full);
  unary(
      "logcumsumexp", [](T x) { return logcumsumexp(x, 0); }, half, half);
  unary(
      "var", [](T x) { return var(x); }, half, half);
  unary(
      "amax", [](T x) { return amax(x); }, half, half);
  unary(
      "norm", [](T x) { return norm(x); }, half, full);
  unary(
      "vector_norm", [](T x) { return linalg::vector_norm(x); }, half, full);
  unary(
      "matrix_norm", [](T x) { return linalg::matrix_norm(x); }, half, full);
  unary(
      "trace", [](T x) { return trace(x); }, full, half);

  pair(
      "mse_loss", [](T x, T y) { return mse_loss(x, y); }, full, full);
  pair(
      "mse_loss, each", [](T x, T y) { return mse_loss(x, y, Reduction::none); }, full, full);
  pair(
      "l1_loss", [](T x, T y) { return l1_loss(x, y); }, full, full);
  pair(
      "smooth_l1_loss", [](T x, T y) { return smooth_l1_loss(x, y); }, full, full);
  pair(
      "huber_loss", [](T x, T y) { return huber_loss(x, y); }, full, full);
  pair(
      "kl_div", [](T x, T y) { return kl_div(x, y); }, full, full);
  pair(
      "poisson_nll_loss", [](T x, T y) { return poisson_nll_loss(x, y); }, full, full);
  pair(
      "gaussian_nll_loss", [](T x, T y) { return gaussian_nll_loss(x, y, y); }, half, full);
  pair(
      "hinge_embedding_loss", [](T x, T y) { return hinge_embedding_loss(x, y); }, full, full);
  pair(
      "soft_margin_loss", [](T x, T y) { return soft_margin_loss(x, y); }, full, full);
  pair(
      "binary_cross_entropy_with_logits",
      [](T x, T y) { return binary_cross_entropy_with_logits(x, y); }, full, full);
  pair(
      "margin_ranking_loss", [](T x, T y) { return margin_ranking_loss(x, y, y); }, full, full);
  pair(
      "cosine_embedding_loss",
      [](T x, T y) { return cosine_embedding_loss(x, y, ones({4}, {.device = x.device()})); }, full,
      full);
  pair(
      "triplet_margin_loss", [](T x, T y) { return triplet_margin_loss(x, y, y * 2); }, full, full);
  pair(
      "multilabel_soft_margin_loss", [](T x, T y) { return multilabel_soft_margin_loss(x, y); },
      half, full);
  unary(
      "multi_margin_loss", [=](T x) { return multi_margin_loss(x, classes(x.device())); }, full,
      full);
  unary(
      "multilabel_margin_loss",
      [](T x) {
        return multilabel_margin_loss(x, zeros({4, 4}, {.dtype = kInt64, .device = x.device()}));
      },
      full, full);
  unary(
      "cross_entropy", [=](T x) { return cross_entropy(x, classes(x.device())); }, full, full);
  unary(
      "cross_entropy with weight",
      [=](T x) { return cross_entropy(x, classes(x.device()), ones({4}, {.device = x.device()})); },
      full, full);
  pair(
      "cross_entropy of probabilities", [](T x, T y) { return cross_entropy(x, y); }, full, full);
  unary(
      "nll_loss", [=](T x) { return nll_loss(x, classes(x.device())); }, full, full);

  row("ctc_loss", full, full, [=](Device d) {
    const Tensor lengths = tensor({5}, {.dtype = kInt64}), ends = tensor({2}, {.dtype = kInt64});
    return ctc_loss(h(d, {5, 1, 4}), ones({1, 2}, {.dtype = kInt64, .device = d}), lengths, ends);
  });

  row("cat", full, full, [=](Device d) { return cat({h(d, {4, 4}), f(d, {4, 4})}); });
  row("stack", full, full, [=](Device d) { return stack({h(d, {4, 4}), f(d, {4, 4})}); });
  row("grid_sample", full, full, [=](Device d) {
    return grid_sample(f(d, {1, 2, 4, 4}), h(d, {1, 3, 3, 2}));
  });
  row("grid_sample of halves", full, half, [=](Device d) {
    return grid_sample(h(d, {1, 2, 4, 4}), h(d, {1, 3, 3, 2}));
  });
  for (const char* mode : {"nearest", "bilinear", "bicubic", "nearest-exact"})
    row(concat("interpolate ", mode), half, full, [=](Device d) {
      return interpolate(h(d, {1, 2, 4, 4}), Shape{8, 8}, std::nullopt, mode);
    });
  row("interpolate area", half, half, [=](Device d) {
    return interpolate(h(d, {1, 2, 4, 4}), Shape{2, 2}, std::nullopt, "area");
  });
  row("avg_pool2d", half, half, [=](Device d) { return avg_pool2d(h(d, {1, 2, 4, 4}), {2}); });
  row("avg_pool3d", full, half, [=](Device d) { return avg_pool3d(h(d, {1, 2, 4, 4, 4}), {2}); });
  row("max_pool3d", full, half, [=](Device d) { return max_pool3d(h(d, {1, 2, 4, 4, 4}), {2}); });
  row("adaptive_avg_pool3d", full, half, [=](Device d) {
    return adaptive_avg_pool3d(h(d, {1, 2, 4, 4, 4}), {1});
  });
  row("lp_pool2d", half, full, [=](Device d) { return lp_pool2d(h(d, {1, 2, 4, 4}), 2, {2}); });
  row("pad, reflected", full, half, [=](Device d) {
    return pad(h(d, {1, 2, 4}), {1, 1}, "reflect");
  });
  row("pad, repeated", full, half, [=](Device d) {
    return pad(h(d, {1, 2, 4}), {1, 1}, "replicate");
  });
  row("pad, circular", half, half, [=](Device d) {
    return pad(h(d, {1, 2, 4}), {1, 1}, "circular");
  });
  row("pad with zeros", half, half, [=](Device d) { return pad(h(d, {1, 2, 4}), {1, 1}); });
  row("embedding", full, full, [=](Device d) { return embedding(classes(d), f(d, {4, 4})); });
  unary(
      "dropout", [](T x) { return dropout(x, 0.5, true); }, half, half);

  row("lstm_cell", full, half, [=](Device d) {
    return std::get<0>(lstm_cell(f(d, {1, 4}), {f(d, {1, 4}), f(d, {1, 4})}, f(d, {16, 4}),
                                 f(d, {16, 4}), f(d, {16}), f(d, {16})));
  });
  row("gru_cell", full, half, [=](Device d) {
    return gru_cell(f(d, {1, 4}), f(d, {1, 4}), f(d, {12, 4}), f(d, {12, 4}));
  });
  row("rnn_tanh_cell", half, half, [=](Device d) {
    return rnn_tanh_cell(f(d, {1, 4}), f(d, {1, 4}), f(d, {4, 4}), f(d, {4, 4}));
  });
  row("lstm", half, half, [=](Device d) {
    return std::get<0>(lstm(f(d, {3, 1, 4}), {f(d, {1, 1, 4}), f(d, {1, 1, 4})},
                            {f(d, {16, 4}), f(d, {16, 4})}, false, 1, 0, false, false, false));
  });
  row("gru", full, half, [=](Device d) {
    return std::get<0>(gru(f(d, {3, 1, 4}), f(d, {1, 1, 4}), {f(d, {12, 4}), f(d, {12, 4})}, false,
                           1, 0, false, false, false));
  });
  return rows;
}

}  // namespace tensora::testing
