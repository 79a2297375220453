#pragma once

// Random training programs: networks of layers, normalizations, attention and views, losses,
// gradient penalties, checkpoints, optimizers, clipping, averages, autocast, accumulated gradients,
// reads of the loss, and results that are kept.

#include <memory>
#include <random>

#include "tensora/autograd/checkpoint.h"
#include "tensora/jit/compile.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

namespace tensora::test {

/// A program is a seed. `step` may be compiled; the state that it changes is `outcome`. The numbers
/// of a nudged program differ by about a rounding: what follows from that is not a mistake.
class TrainingProgram {
 public:
  /// With `repeats`, a step does nothing on the host that another step would not do.
  explicit TrainingProgram(uint64_t seed, bool nudged = false, bool repeats = false)
      : random_(seed), repeats_(repeats) {
    manual_seed(seed);
    const int64_t widths[] = {1, 4, 12, 31, 64, 130}, batches[] = {1, 2, 7, 16, 70};
    width_ = widths[pick(6)];
    batch_ = batches[pick(5)];
    time_ = 1 + static_cast<int64_t>(pick(5));
    dtype_ = pick(2) ? kFloat32 : kFloat64;
    accumulates_ = pick(4) == 0;
    reads_ = pick(4) == 0 && !repeats;
    penalizes_ = pick(5) == 0;
    averages_ = pick(4) == 0 && !repeats;
    casts_ = dtype_ == kFloat32 && pick(3) == 0;
    clips_ = pick(4);
    loss_ = pick(6);
    const size_t layers = 2 + pick(5);
    for (size_t i = 0; i < layers; ++i) {
      layers_.push_back(pick(kLayers));
      choices_.push_back(random_());
      first_.push_back(parameters_.size());
      add_parameters(layers_.back());
    }
    table_ = parameter({9, width_});
    head_ = parameter({5, width_});
    // The others divide by the size of gradients, which may be rounding alone.
    make_optimizer(pick(dtype_ == kFloat64 ? 12 : 2));
    if (averages_) ema_ = std::make_unique<optim::AveragedParameters>(parameters_, decay());
    running_mean_ = zeros({width_}, {.dtype = dtype_});
    running_var_ = ones({width_}, {.dtype = dtype_});
    const no_grad silent;
    for (const Tensor& one : parameters_)
      if (nudged) one.mul_(1 + (dtype_ == kFloat64 ? 1e-14 : 1e-6));
  }

  struct Batch {
    Tensor tokens, labels, noise;
  };
  Batch batch(uint64_t number) const {
    Generator generator(number + 77);
    const GeneratorScope drawing(generator);
    return {randint(0, 9, {batch_, time_}), randint(0, 5, {batch_, time_}),
            randn({batch_, time_, width_}, {.dtype = dtype_})};
  }

  Tensor step(const Batch& batch) {
    const int parts = accumulates_ ? 2 : 1;
    Tensor total;
    for (int part = 0; part < parts; ++part) {
      const Tensor loss = loss_of(batch) / parts;
      loss.backward();
      total = total.defined() ? total + loss.detach() : loss.detach();
    }
    if (clips_ == 1) {
      const Tensor norm = clip_grad_norm_(parameters_, 0.5);
      if (!repeats_) norms_.push_back(norm);
    }
    if (clips_ == 2) clip_grad_value_(parameters_, 0.1);
    if (reads_ && total.item<double>() > 1.5)
      optimizer_->param_groups()[0].set_lr(optimizer_->param_groups()[0].lr() * 0.5);
    optimizer_->step();
    if (ema_) ema_->update_parameters();
    if (!repeats_) ++steps_;
    optimizer_->zero_grad(steps_ % 2 == 0);
    return total;
  }

  /// Everything that is left.
  std::vector<Tensor> outcome() const {
    std::vector<Tensor> all = kept_;
    all.insert(all.end(), norms_.begin(), norms_.end());
    for (const Tensor& one : parameters_) {
      all.push_back(one.detach());
      if (one.grad().defined()) all.push_back(one.grad());
      if (!optimizer_->has_state(one)) continue;
      for (const auto& [key, value] : optimizer_->state(one).to_dict())
        if (value.is_tensor()) all.push_back(value.to_tensor());
    }
    if (ema_) all.insert(all.end(), ema_->averages().begin(), ema_->averages().end());
    all.push_back(running_mean_);
    all.push_back(running_var_);
    return all;
  }
  std::string describe() const {
    std::string text = concat(dtype_, " ", batch_, "x", time_, "x", width_, " layers");
    for (size_t layer : layers_) text += concat(" ", layer);
    return text + concat(" loss ", loss_, accumulates_ ? " accumulates" : "",
                         penalizes_ ? " penalizes" : "", casts_ ? " casts" : "", " clips ", clips_,
                         " ", optimizer_->name());
  }
  optim::Optimizer& optimizer() { return *optimizer_; }
  uint64_t steps() const { return dtype_ == kFloat64 ? 3 : 1; }
  /// How far results may be from those of sums in another order.
  double tolerance() const { return casts_ ? 0.1 : dtype_ == kFloat64 ? 1e-6 : 5e-3; }

 private:
  static constexpr size_t kLayers = 20;

  size_t pick(size_t count) { return random_() % count; }
  static optim::AveragedParametersOptions decay() { return {.decay = 0.9}; }

  Tensor parameter(const Shape& sizes) {
    const Tensor made = (randn(sizes, {.dtype = dtype_}) * 0.3).requires_grad_();
    parameters_.push_back(made);
    return made;
  }
  void add_parameters(size_t layer) {
    const bool matrix = layer < 4 || layer == 9 || layer == 12 || layer == 13;
    if (matrix) {
      parameter({layer == 3 ? 2 * width_ : width_, width_});
      parameter({layer == 3 ? 2 * width_ : width_});
    } else if (layer == 8) {
      parameter({3 * width_, width_});
    } else {
      parameter({width_});
      parameter({width_});
    }
  }

  void make_optimizer(size_t kind) {
    using namespace optim;
    const std::vector<Tensor>& p = parameters_;
    switch (kind) {
      case 0:
        optimizer_ = std::make_unique<SGD>(p, SGDOptions{.lr = 0.05});
        return;
      case 1:
        optimizer_ = std::make_unique<SGD>(
            p, SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
        return;
      case 2:
        optimizer_ = std::make_unique<Adam>(p, AdamOptions{.lr = 0.01, .amsgrad = true});
        return;
      case 3:
        optimizer_ = std::make_unique<RMSprop>(
            p, RMSpropOptions{.lr = 0.01, .momentum = 0.5, .centered = true});
        return;
      case 4:
        optimizer_ = std::make_unique<Adagrad>(p, AdagradOptions{.lr = 0.05, .lr_decay = 0.1});
        return;
      case 5:
        optimizer_ = std::make_unique<Adadelta>(p);
        return;
      case 6:
        optimizer_ = std::make_unique<NAdam>(p);
        return;
      case 7:
        optimizer_ = std::make_unique<RAdam>(p);
        return;
      case 8:
        optimizer_ = std::make_unique<Adamax>(p);
        return;
      case 9:
        optimizer_ = std::make_unique<Adam>(p, AdamOptions{.lr = 0.01, .weight_decay = 0.1});
        return;
      case 10:
        optimizer_ = std::make_unique<Adam>(p, AdamOptions{.lr = 0.01, .capturable = true});
        return;
      default:
        optimizer_ = std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.01, .weight_decay = 0.2});
        return;
    }
  }

  const Tensor& of(size_t layer, size_t i) const { return parameters_[first_[layer] + i]; }

  Tensor act(const Tensor& x, uint64_t choice) const {
    switch (choice % 6) {
      case 0:
        return gelu(x);
      case 1:
        return silu(x);
      case 2:
        return x.tanh();
      case 3:
        return softplus(x);
      case 4:
        return x.sigmoid() * x;
      default:
        return x.relu();
    }
  }

  Tensor apply(size_t i, const Tensor& x) { return layers_[i] < 10 ? block(i, x) : mixture(i, x); }

  Tensor block(size_t i, const Tensor& x) {
    const uint64_t choice = choices_[i];
    const Shape row{width_};
    switch (layers_[i]) {
      case 0:
        return act(linear(x, of(i, 0), of(i, 1)), choice);
      case 1:
        return x + dropout(act(linear(x, of(i, 0), of(i, 1)), choice), 0.2);
      case 2:
        return checkpoint(
            [this, i, choice](const Tensor& in) {
              return dropout(act(linear(in, of(i, 0)), choice), 0.1) + of(i, 1);
            },
            x);
      case 3:
        return swiglu(linear(x, of(i, 0), of(i, 1)));
      case 4:
        return layer_norm(x + of(i, 0), row, of(i, 0), of(i, 1));
      case 5:
        return rms_norm(x * 1.5, row, of(i, 0)) + of(i, 1);
      case 6: {
        const Tensor flat = x.reshape({-1, width_});
        if (flat.size(0) < 2) return x;
        return batch_norm(flat, running_mean_, running_var_, of(i, 0), of(i, 1), true)
            .reshape(x.sizes());
      }
      case 7: {
        const Tensor centred = x - x.mean({-1}, true);
        return centred * rsqrt(centred.square().mean({-1}, true) + 1e-3) * of(i, 0) + of(i, 1);
      }
      case 8: {
        const TensorList parts = linear(x, of(i, 0)).chunk(3, -1);
        return x + scaled_dot_product_attention(parts[0], parts[1], parts[2]);
      }
      default: {
        const Tensor scores = matmul(linear(x, of(i, 0)), x.transpose(-1, -2)) * 0.3;
        const Tensor mask = ones({time_, time_}).triu(1).to(kBool);
        return matmul(softmax(scores.masked_fill(mask, -INFINITY), -1), x) + of(i, 1);
      }
    }
  }

  // Views, writes in place, scans and random numbers.
  Tensor mixture(size_t i, const Tensor& x) {
    switch (layers_[i]) {
      case 10:
        return x * (x.detach().abs().amax({-1}, true) + 1).reciprocal() * of(i, 0) + of(i, 1);
      case 11: {
        const Tensor y = x * of(i, 0);
        y.slice(-1, 0, (width_ + 1) / 2).mul_(2);
        y.relu_();
        return y + of(i, 1);
      }
      case 12: {
        const Tensor y = x.clone();
        y.select(1, 0).add_(linear(x.select(1, time_ - 1), of(i, 0), of(i, 1)));
        return y;
      }
      case 13: {
        Tensor state = zeros({batch_, width_}, {.dtype = x.dtype()});
        TensorList states;
        for (int64_t t = 0; t < time_; ++t) {
          state = (linear(x.select(1, t), of(i, 0), of(i, 1)) + state * 0.5).tanh();
          states.push_back(state);
        }
        return stack(states, 1);
      }
      case 14:
        return where(x > of(i, 0), x, x * 0.1) + cumsum(x, 1) * of(i, 1);
      case 15:
        return cat({x.slice(-1, 0, width_ / 2), x.slice(-1, width_ / 2).flip({-1})}, -1) *
                   of(i, 0) +
               of(i, 1);
      case 16:
        return x.transpose(0, 1).contiguous().transpose(0, 1) * of(i, 0) + dropout(x, 0.3) +
               of(i, 1);
      case 17: {
        const Tensor total = x.sum({0, 1});
        return x + total * of(i, 0) * 0.01 + logsumexp(x, {-1}, true) * of(i, 1);
      }
      case 18:
        if (!repeats_) kept_.push_back(x.detach());
        return x.clamp(-2, 2) * of(i, 0) + randn_like(x) * 0.01 + of(i, 1);
      default:
        return log_softmax(x * of(i, 0), -1).exp() + x.square() * 0.1 + of(i, 1);
    }
  }

  Tensor logits_of(const Batch& batch, const Tensor& embedded) {
    Tensor x = embedded + batch.noise;
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = apply(i, x);
      x = x.to(dtype_);
    }
    return linear(x, head_);
  }

  Tensor loss_of(const Batch& batch) {
    Tensor embedded = embedding(batch.tokens, table_), logits;
    {
      const autocast half(AutocastOptions{.enabled = casts_});
      logits = logits_of(batch, embedded).to(dtype_);
    }
    const Tensor flat = logits.reshape({-1, 5}), labels = batch.labels.reshape({-1});
    Tensor loss;
    switch (loss_) {
      case 0:
        loss = cross_entropy(flat, labels);
        break;
      case 1:
        loss = -log_softmax(flat, -1).gather(1, labels.unsqueeze(1)).mean();
        break;
      case 2:
        loss = mse_loss(flat, one_hot(labels, 5).to(dtype_));
        break;
      case 3:
        loss = huber_loss(flat, one_hot(labels, 5).to(dtype_));
        break;
      case 4:
        loss =
            cross_entropy(flat, labels, {}, 2, Reduction::mean, 0.1) + flat.square().mean() * 0.1;
        break;
      default:
        loss = (logsumexp(flat, {-1}) - (flat * one_hot(labels, 5)).sum({-1})).mean();
        break;
    }
    if (penalizes_) {
      const TensorList slope = grad(loss, {embedded}, {.retain_graph = true, .create_graph = true});
      loss = loss + slope[0].square().sum() * 0.1;
    }
    if (!repeats_) kept_.push_back(flat.detach().slice(0, 0, 2));
    return loss;
  }

  std::mt19937_64 random_;
  const bool repeats_;
  int64_t width_ = 1, batch_ = 1, time_ = 1;
  DType dtype_ = kFloat32;
  bool accumulates_ = false, reads_ = false, penalizes_ = false, averages_ = false, casts_ = false;
  size_t clips_ = 0, loss_ = 0;
  int steps_ = 0;
  std::vector<size_t> layers_, first_;
  std::vector<uint64_t> choices_;
  std::vector<Tensor> parameters_, kept_, norms_;
  Tensor table_, head_, running_mean_, running_var_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::AveragedParameters> ema_;
};

}  // namespace tensora::test
