#pragma once

#include "tensora/nn/layer.h"

// Layers that drop at random in training and do nothing in eval.

namespace tensora::nn {

struct DropoutOptions {
  bool inplace = false;  // writes to its input
};

namespace detail {

void check_dropout(double p);
std::string repr_dropout(double p, bool inplace);

template <class Self>
class DropoutBase : public Layer<Self> {
 public:
  explicit DropoutBase(double given_p = 0.5, DropoutOptions options = {})
      : p(given_p), inplace(options.inplace) {
    check_dropout(p);
  }
  std::string extra_repr() const override { return repr_dropout(p, inplace); }

  double p;
  bool inplace;
};

}  // namespace detail

/// Each element with probability p; the others are divided by 1 - p.
class Dropout : public detail::DropoutBase<Dropout> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(const Tensor& input) const;
};

/// Whole channels of [N, C, L] or [C, L].
class Dropout1d : public detail::DropoutBase<Dropout1d> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(const Tensor& input) const;
};

/// Whole channels of [N, C, H, W].
class Dropout2d : public detail::DropoutBase<Dropout2d> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(const Tensor& input) const;
};

/// Whole channels of [N, C, D, H, W] or [C, D, H, W].
class Dropout3d : public detail::DropoutBase<Dropout3d> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(const Tensor& input) const;
};

/// To the negative saturation of SELU; keeps mean and variance.
class AlphaDropout : public detail::DropoutBase<AlphaDropout> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(const Tensor& input) const;
};

/// The same for whole channels.
class FeatureAlphaDropout : public detail::DropoutBase<FeatureAlphaDropout> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(const Tensor& input) const;
};

}  // namespace tensora::nn
