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
  DType cpu, gpu;
  std::function<Tensor(Device)> run;
};

namespace autocast_table_parts {

using T = const Tensor&;
inline constexpr DType half = kBFloat16, full = kFloat32;

// Elements between 0.1 and 0.9, where every function is defined: floats and halves.
inline Tensor f(Device device, const Shape& sizes) {
  return rand(sizes, {.device = device}) * 0.8 + 0.1;
}
inline Tensor h(Device device, const Shape& sizes) { return f(device, sizes).to(kBFloat16); }
inline Tensor classes(Device device) { return tensor({0, 1, 2, 3}, {.dtype = kInt64}).to(device); }

struct Table {
  std::vector<AutocastRow> rows;

  void row(std::string name, DType cpu, DType gpu, std::function<Tensor(Device)> run) {
    rows.push_back({std::move(name), cpu, gpu, std::move(run)});
  }
  // Functions of one half, of two halves, and of two floats, matrices all.
  void unary(std::string name, DType cpu, DType gpu, const std::function<Tensor(T)>& function) {
    row(std::move(name), cpu, gpu, [=](Device d) { return function(h(d, {4, 4})); });
  }
  void pair(std::string name, DType cpu, DType gpu, const std::function<Tensor(T, T)>& function) {
    row(std::move(name), cpu, gpu, [=](Device d) { return function(h(d, {4, 4}), h(d, {4, 4})); });
  }
  void products(std::string name, DType cpu, DType gpu,
                const std::function<Tensor(T, T)>& function) {
    row(std::move(name), cpu, gpu, [=](Device d) { return function(f(d, {4, 4}), f(d, {4, 4})); });
  }
};

inline void add_pointwise(Table& table) {
  table.unary("exp", half, full, [](T x) { return exp(x); });
  table.unary("exp2", half, half, [](T x) { return exp2(x); });
  table.unary("expm1", half, full, [](T x) { return expm1(x); });
  table.unary("log", half, full, [](T x) { return log(x); });
  table.unary("log10", half, full, [](T x) { return log10(x); });
  table.unary("log2", half, full, [](T x) { return log2(x); });
  table.unary("log1p", half, full, [](T x) { return log1p(x); });
  table.unary("reciprocal", half, full, [](T x) { return reciprocal(x); });
  table.unary("rsqrt", half, full, [](T x) { return rsqrt(x); });
  table.unary("sqrt", half, half, [](T x) { return sqrt(x); });
  table.unary("sinh", half, full, [](T x) { return sinh(x); });
  table.unary("cosh", half, full, [](T x) { return cosh(x); });
  table.unary("tan", half, full, [](T x) { return tan(x); });
  table.unary("acos", half, full, [](T x) { return acos(x); });
  table.unary("asin", half, full, [](T x) { return asin(x); });
  table.unary("erfinv", half, full, [](T x) { return erfinv(x); });
  table.unary("tanh", half, half, [](T x) { return tanh(x); });
  table.unary("sigmoid", half, half, [](T x) { return sigmoid(x); });
  table.unary("softplus", half, full, [](T x) { return softplus(x); });
  table.unary("gelu", half, half, [](T x) { return gelu(x); });
  table.unary("silu", half, half, [](T x) { return silu(x); });
  table.unary("square", half, full, [](T x) { return square(x); });
  table.unary("pow 2", half, full, [](T x) { return pow(x, 2); });
  table.unary("pow 0.5", half, full, [](T x) { return pow(x, 0.5); });
  table.unary("pow 3", half, full, [](T x) { return pow(x, 3); });
  table.unary("2 to the power", half, full, [](T x) { return pow(2.0, x); });
  table.pair("pow", half, full, [](T x, T y) { return pow(x, y); });
}

inline void add_products(Table& table) {
  table.products("mm", half, half, [](T x, T y) { return mm(x, y); });
  table.products("matmul", half, half, [](T x, T y) { return matmul(x, y); });
  table.products("matmul of vectors", half, half, [](T x, T y) { return matmul(x[0], y[0]); });
  table.products("mv", full, half, [](T x, T y) { return mv(x, y[0]); });
  table.products("addmm", half, half, [](T x, T y) { return addmm(x, x, y); });
  table.products("addmv", full, half, [](T x, T y) { return addmv(x[0], x, y[0]); });
  table.products("addr", full, half, [](T x, T y) { return addr(x, x[0], y[0]); });
  table.products("dot", full, full, [](T x, T y) { return dot(x[0], y[0]); });
  table.products("vdot", full, full, [](T x, T y) { return vdot(x[0], y[0]); });
  table.products("inner", half, full, [](T x, T y) { return inner(x, y); });
  table.products("outer", full, full, [](T x, T y) { return outer(x[0], y[0]); });
  table.products("kron", full, full, [](T x, T y) { return kron(x, y); });
  table.products("linear", half, half, [](T x, T y) { return linear(x, y, x[0]); });
  table.products("linear_activation", half, half,
                 [](T x, T y) { return linear_activation(x, y, x[0], "relu"); });
  table.products("bmm", half, half, [](T x, T y) { return bmm(x.unsqueeze(0), y.unsqueeze(0)); });
  table.products("baddbmm", half, half,
                 [](T x, T y) { return baddbmm(x.unsqueeze(0), x.unsqueeze(0), y.unsqueeze(0)); });
  table.products("addbmm", half, half,
                 [](T x, T y) { return addbmm(x, x.unsqueeze(0), y.unsqueeze(0)); });
  table.products("chain_matmul", half, half, [](T x, T y) { return chain_matmul({x, y}); });
  table.products("multi_dot", half, half, [](T x, T y) { return linalg::multi_dot({x, y}); });
  table.products("vecdot", half, half, [](T x, T y) { return linalg::vecdot(x, y); });
  table.products("einsum", half, half, [](T x, T y) { return einsum("ij,jk->ik", {x, y}); });
  table.products("einsum that transposes", full, half,
                 [](T x, T) { return einsum("ij->ji", {x}); });
  table.products("tensordot", half, full, [](T x, T y) { return tensordot(x, y, 1); });
}

inline void add_more_products(Table& table) {
  table.products("matrix_power", half, half, [](T x, T) { return linalg::matrix_power(x, 3); });
  table.products("prelu", half, half, [](T x, T y) { return prelu(x, y[0]); });
  table.products("bilinear", full, full, [](T x, T y) {
    return bilinear(x, y, x.unsqueeze(0).expand({4, 4, 4}));
  });
  table.row("bilinear of halves", half, half, [](Device d) {
    return bilinear(h(d, {4, 4}), h(d, {4, 4}), h(d, {4, 4, 4}), h(d, {4}));
  });
  table.pair("tensordot of halves", half, half, [](T x, T y) { return tensordot(x, y, 1); });
  table.row("linear of both", half, half, [](Device d) {
    return linear(h(d, {4, 4}), f(d, {4, 4}), f(d, {4}));
  });
  table.pair("cdist", full, full, [](T x, T y) { return cdist(x, y); });
  table.pair("dist", half, full, [](T x, T y) { return dist(x, y); });
  table.pair("pairwise_distance", half, full, [](T x, T y) { return pairwise_distance(x, y); });
  table.pair("cosine_similarity", half, full, [](T x, T y) { return cosine_similarity(x, y); });
  table.unary("renorm", half, full, [](T x) { return renorm(x, 2, 0, 1.0); });
  table.row("conv1d", half, half, [](Device d) {
    return conv1d(f(d, {1, 2, 5}), f(d, {2, 2, 3}));
  });
  table.row("conv2d", half, half, [](Device d) {
    return conv2d(f(d, {1, 2, 5, 5}), f(d, {2, 2, 3, 3}), f(d, {2}));
  });
  table.row("conv3d", half, half, [](Device d) {
    return conv3d(f(d, {1, 2, 5, 5, 5}), f(d, {2, 2, 3, 3, 3}));
  });
  table.row("conv_transpose2d", half, half, [](Device d) {
    return conv_transpose2d(f(d, {1, 2, 5, 5}), f(d, {2, 2, 3, 3}));
  });
  table.row("attention", half, half, [](Device d) {
    const Tensor x = f(d, {1, 2, 4, 8});
    return scaled_dot_product_attention(x, x, x);
  });
  table.row("attention of both", half, half, [](Device d) {
    const Tensor x = f(d, {1, 2, 4, 8}), y = h(d, {1, 2, 4, 8});
    return scaled_dot_product_attention(x, y, y, f(d, {4, 4}));
  });
}

inline void add_norms(Table& table) {
  table.unary("layer_norm", half, full, [](T x) { return layer_norm(x, {4}); });
  table.row("layer_norm with weights", half, full, [](Device d) {
    return layer_norm(h(d, {4, 4}), {4}, f(d, {4}), f(d, {4}));
  });
  table.unary("rms_norm", half, full, [](T x) { return rms_norm(x, {4}); });
  table.row("rms_norm with weights", half, full, [](Device d) {
    return rms_norm(h(d, {4, 4}), {4}, f(d, {4}));
  });
  table.unary("group_norm", half, full, [](T x) { return group_norm(x, 2); });
  table.row("batch_norm", half, half, [](Device d) {
    return batch_norm(h(d, {2, 4, 3}), f(d, {4}), f(d, {4}), f(d, {4}), f(d, {4}), true);
  });
  table.row("local_response_norm", half, full, [](Device d) {
    return local_response_norm(h(d, {2, 4, 3}), 2);
  });
  table.unary("normalize", half, full, [](T x) { return normalize(x); });
  table.unary("softmax", half, full, [](T x) { return softmax(x, -1); });
  table.unary("softmax with dtype", half, half, [](T x) { return softmax(x, -1, kBFloat16); });
  table.unary("log_softmax", half, full, [](T x) { return log_softmax(x, -1); });
  table.unary("softmin", half, full, [](T x) { return softmin(x, -1); });
  table.unary("gumbel_softmax", half, full, [](T x) { return gumbel_softmax(x); });
}

inline void add_reductions(Table& table) {
  table.unary("sum", half, full, [](T x) { return sum(x); });
  table.unary("sum of a dim", half, full, [](T x) { return sum(x, {0}); });
  table.unary("sum with dtype", half, half, [](T x) { return sum(x, kBFloat16); });
  table.unary("mean", half, half, [](T x) { return mean(x); });
  table.unary("prod", full, full, [](T x) { return prod(x); });
  table.unary("prod with dtype", half, half, [](T x) { return prod(x, kBFloat16); });
  table.unary("logsumexp", half, full, [](T x) { return logsumexp(x, {0}); });
  table.unary("cumsum", half, full, [](T x) { return cumsum(x, 0); });
  table.unary("cumsum with dtype", half, half, [](T x) { return cumsum(x, 0, kBFloat16); });
  table.unary("cumprod", half, full, [](T x) { return cumprod(x, 0); });
  table.unary("logcumsumexp", half, half, [](T x) { return logcumsumexp(x, 0); });
  table.unary("var", half, half, [](T x) { return var(x); });
  table.unary("amax", half, half, [](T x) { return amax(x); });
  table.unary("norm", half, full, [](T x) { return norm(x); });
  table.unary("vector_norm", half, full, [](T x) { return linalg::vector_norm(x); });
  table.unary("matrix_norm", half, full, [](T x) { return linalg::matrix_norm(x); });
  table.unary("trace", full, half, [](T x) { return trace(x); });
}

inline void add_losses(Table& table) {
  table.pair("mse_loss", full, full, [](T x, T y) { return mse_loss(x, y); });
  table.pair("mse_loss, each", full, full,
             [](T x, T y) { return mse_loss(x, y, Reduction::none); });
  table.pair("l1_loss", full, full, [](T x, T y) { return l1_loss(x, y); });
  table.pair("smooth_l1_loss", full, full, [](T x, T y) { return smooth_l1_loss(x, y); });
  table.pair("huber_loss", full, full, [](T x, T y) { return huber_loss(x, y); });
  table.pair("kl_div", full, full, [](T x, T y) { return kl_div(x, y); });
  table.pair("poisson_nll_loss", full, full, [](T x, T y) { return poisson_nll_loss(x, y); });
  table.pair("gaussian_nll_loss", half, full, [](T x, T y) { return gaussian_nll_loss(x, y, y); });
  table.pair("hinge_embedding_loss", full, full,
             [](T x, T y) { return hinge_embedding_loss(x, y); });
  table.pair("soft_margin_loss", full, full, [](T x, T y) { return soft_margin_loss(x, y); });
  table.pair("binary_cross_entropy_with_logits", full, full,
             [](T x, T y) { return binary_cross_entropy_with_logits(x, y); });
  table.pair("margin_ranking_loss", full, full,
             [](T x, T y) { return margin_ranking_loss(x, y, y); });
  table.pair("cosine_embedding_loss", full, full, [](T x, T y) {
    return cosine_embedding_loss(x, y, ones({4}, {.device = x.device()}));
  });
  table.pair("triplet_margin_loss", full, full,
             [](T x, T y) { return triplet_margin_loss(x, y, y * 2); });
  table.pair("multilabel_soft_margin_loss", half, full,
             [](T x, T y) { return multilabel_soft_margin_loss(x, y); });
  table.unary("multi_margin_loss", full, full,
              [](T x) { return multi_margin_loss(x, classes(x.device())); });
  table.unary("multilabel_margin_loss", full, full, [](T x) {
    return multilabel_margin_loss(x, zeros({4, 4}, {.dtype = kInt64, .device = x.device()}));
  });
  table.unary("cross_entropy", full, full,
              [](T x) { return cross_entropy(x, classes(x.device())); });
  table.unary("cross_entropy with weight", full, full, [](T x) {
    return cross_entropy(x, classes(x.device()), ones({4}, {.device = x.device()}));
  });
  table.pair("cross_entropy of probabilities", full, full,
             [](T x, T y) { return cross_entropy(x, y); });
  table.unary("nll_loss", full, full, [](T x) { return nll_loss(x, classes(x.device())); });
  table.row("ctc_loss", full, full, [](Device d) {
    const Tensor lengths = tensor({5}, {.dtype = kInt64}), ends = tensor({2}, {.dtype = kInt64});
    return ctc_loss(h(d, {5, 1, 4}), ones({1, 2}, {.dtype = kInt64, .device = d}), lengths, ends);
  });
}

inline void add_shapes(Table& table) {
  table.row("cat", full, full, [](Device d) { return cat({h(d, {4, 4}), f(d, {4, 4})}); });
  table.row("stack", full, full, [](Device d) { return stack({h(d, {4, 4}), f(d, {4, 4})}); });
  table.row("grid_sample", full, full, [](Device d) {
    return grid_sample(f(d, {1, 2, 4, 4}), h(d, {1, 3, 3, 2}));
  });
  table.row("grid_sample of halves", full, half, [](Device d) {
    return grid_sample(h(d, {1, 2, 4, 4}), h(d, {1, 3, 3, 2}));
  });
  for (const char* mode : {"nearest", "bilinear", "bicubic", "nearest-exact"})
    table.row(concat("interpolate ", mode), half, full, [=](Device d) {
      return interpolate(h(d, {1, 2, 4, 4}), Shape{8, 8}, std::nullopt, mode);
    });
  table.row("interpolate area", half, half, [](Device d) {
    return interpolate(h(d, {1, 2, 4, 4}), Shape{2, 2}, std::nullopt, "area");
  });
  table.row("avg_pool2d", half, half, [](Device d) { return avg_pool2d(h(d, {1, 2, 4, 4}), {2}); });
  table.row("avg_pool3d", full, half, [](Device d) {
    return avg_pool3d(h(d, {1, 2, 4, 4, 4}), {2});
  });
  table.row("max_pool3d", full, half, [](Device d) {
    return max_pool3d(h(d, {1, 2, 4, 4, 4}), {2});
  });
  table.row("adaptive_avg_pool3d", full, half, [](Device d) {
    return adaptive_avg_pool3d(h(d, {1, 2, 4, 4, 4}), {1});
  });
  table.row("lp_pool2d", half, full, [](Device d) {
    return lp_pool2d(h(d, {1, 2, 4, 4}), 2, {2});
  });
  table.row("pad, reflected", full, half, [](Device d) {
    return pad(h(d, {1, 2, 4}), {1, 1}, "reflect");
  });
  table.row("pad, repeated", full, half, [](Device d) {
    return pad(h(d, {1, 2, 4}), {1, 1}, "replicate");
  });
  table.row("pad, circular", half, half, [](Device d) {
    return pad(h(d, {1, 2, 4}), {1, 1}, "circular");
  });
  table.row("pad with zeros", half, half, [](Device d) { return pad(h(d, {1, 2, 4}), {1, 1}); });
  table.row("embedding", full, full, [](Device d) { return embedding(classes(d), f(d, {4, 4})); });
  table.unary("dropout", half, half, [](T x) { return dropout(x, 0.5, true); });
}

inline void add_networks(Table& table) {
  table.row("lstm_cell", full, half, [](Device d) {
    return std::get<0>(lstm_cell(f(d, {1, 4}), {f(d, {1, 4}), f(d, {1, 4})}, f(d, {16, 4}),
                                 f(d, {16, 4}), f(d, {16}), f(d, {16})));
  });
  table.row("gru_cell", full, half, [](Device d) {
    return gru_cell(f(d, {1, 4}), f(d, {1, 4}), f(d, {12, 4}), f(d, {12, 4}));
  });
  table.row("rnn_tanh_cell", half, half, [](Device d) {
    return rnn_tanh_cell(f(d, {1, 4}), f(d, {1, 4}), f(d, {4, 4}), f(d, {4, 4}));
  });
  table.row("lstm", half, half, [](Device d) {
    return std::get<0>(lstm(f(d, {3, 1, 4}), {f(d, {1, 1, 4}), f(d, {1, 1, 4})},
                            {f(d, {16, 4}), f(d, {16, 4})}, false, 1, 0, false, false, false));
  });
  table.row("gru", full, half, [](Device d) {
    return std::get<0>(gru(f(d, {3, 1, 4}), f(d, {1, 1, 4}), {f(d, {12, 4}), f(d, {12, 4})}, false,
                           1, 0, false, false, false));
  });
}

}  // namespace autocast_table_parts

inline std::vector<AutocastRow> autocast_table() {
  autocast_table_parts::Table table;
  autocast_table_parts::add_pointwise(table);
  autocast_table_parts::add_products(table);
  autocast_table_parts::add_more_products(table);
  autocast_table_parts::add_norms(table);
  autocast_table_parts::add_reductions(table);
  autocast_table_parts::add_losses(table);
  autocast_table_parts::add_shapes(table);
  autocast_table_parts::add_networks(table);
  return std::move(table.rows);
}

}  // namespace tensora::testing
