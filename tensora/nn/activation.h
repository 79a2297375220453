#pragma once

#include "tensora/nn/layer.h"

// Activations. With `.inplace = true` a layer writes to its input.

namespace tensora::nn {

struct InplaceOptions {
  bool inplace = false;
};

/// max(0, x).
class ReLU : public Layer<ReLU> {
 public:
  explicit ReLU(InplaceOptions options = {}) : inplace(options.inplace) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  bool inplace;
};

/// x between 0 and 6.
class ReLU6 : public Layer<ReLU6> {
 public:
  explicit ReLU6(InplaceOptions options = {}) : inplace(options.inplace) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  bool inplace;
};

/// ELU with the numbers that keep mean 0 and variance 1.
class SELU : public Layer<SELU> {
 public:
  explicit SELU(InplaceOptions options = {}) : inplace(options.inplace) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  bool inplace;
};

/// x sigmoid(x), also known as swish.
class SiLU : public Layer<SiLU> {
 public:
  explicit SiLU(InplaceOptions options = {}) : inplace(options.inplace) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  bool inplace;
};

/// x tanh(softplus(x)).
class Mish : public Layer<Mish> {
 public:
  explicit Mish(InplaceOptions options = {}) : inplace(options.inplace) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  bool inplace;
};

/// relu6(x + 3) / 6.
class Hardsigmoid : public Layer<Hardsigmoid> {
 public:
  explicit Hardsigmoid(InplaceOptions options = {}) : inplace(options.inplace) {}
  Tensor forward(const Tensor& input) const;

  bool inplace;
};

/// x hardsigmoid(x).
class Hardswish : public Layer<Hardswish> {
 public:
  explicit Hardswish(InplaceOptions options = {}) : inplace(options.inplace) {}
  Tensor forward(const Tensor& input) const;

  bool inplace;
};

/// 1 / (1 + exp(-x)).
class Sigmoid : public Layer<Sigmoid> {
 public:
  Tensor forward(const Tensor& input) const;
};

/// The hyperbolic tangent.
class Tanh : public Layer<Tanh> {
 public:
  Tensor forward(const Tensor& input) const;
};

/// log(sigmoid(x)).
class LogSigmoid : public Layer<LogSigmoid> {
 public:
  Tensor forward(const Tensor& input) const;
};

/// x / (1 + |x|).
class Softsign : public Layer<Softsign> {
 public:
  Tensor forward(const Tensor& input) const;
};

/// x - tanh(x).
class Tanhshrink : public Layer<Tanhshrink> {
 public:
  Tensor forward(const Tensor& input) const;
};

struct ELUOptions {
  double alpha = 1;
  bool inplace = false;
};

/// x above 0, alpha (exp(x) - 1) below.
class ELU : public Layer<ELU> {
 public:
  explicit ELU(ELUOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  ELUOptions options;
};

struct CELUOptions {
  double alpha = 1;
  bool inplace = false;
};

/// x above 0, alpha (exp(x / alpha) - 1) below.
class CELU : public Layer<CELU> {
 public:
  explicit CELU(CELUOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  CELUOptions options;
};

struct LeakyReLUOptions {
  double negative_slope = 0.01;
  bool inplace = false;
};

/// x above 0, negative_slope x below.
class LeakyReLU : public Layer<LeakyReLU> {
 public:
  explicit LeakyReLU(LeakyReLUOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  LeakyReLUOptions options;
};

struct RReLUOptions {
  double lower = 1. / 8;
  double upper = 1. / 3;
  bool inplace = false;
};

/// LeakyReLU with slopes that are drawn from [lower, upper) in training.
class RReLU : public Layer<RReLU> {
 public:
  explicit RReLU(RReLUOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  RReLUOptions options;
};

struct HardtanhOptions {
  double min_val = -1;
  double max_val = 1;
  bool inplace = false;
};

/// x between min_val and max_val.
class Hardtanh : public Layer<Hardtanh> {
 public:
  explicit Hardtanh(HardtanhOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  HardtanhOptions options;
};

struct SoftplusOptions {
  double beta = 1;
  double threshold = 20;
};

/// log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold.
class Softplus : public Layer<Softplus> {
 public:
  explicit Softplus(SoftplusOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  SoftplusOptions options;
};

struct HardshrinkOptions {
  double lambd = 0.5;
};

/// x, or 0 where |x| is at most lambd.
class Hardshrink : public Layer<Hardshrink> {
 public:
  explicit Hardshrink(HardshrinkOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  HardshrinkOptions options;
};

struct SoftshrinkOptions {
  double lambd = 0.5;
};

/// x moved towards 0 by lambd.
class Softshrink : public Layer<Softshrink> {
 public:
  explicit Softshrink(SoftshrinkOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  SoftshrinkOptions options;
};

struct GLUOptions {
  int64_t dim = -1;
};

/// The first half of a dim times the sigmoid of the second.
class GLU : public Layer<GLU> {
 public:
  explicit GLU(GLUOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  GLUOptions options;
};

struct GELUOptions {
  std::string approximate = "none";
};

/// x times the normal distribution function, by erf ("none") or approximated ("tanh").
class GELU : public Layer<GELU> {
 public:
  explicit GELU(GELUOptions options = {}) : options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  GELUOptions options;
};

/// x above the threshold, else `value`.
class Threshold : public Layer<Threshold> {
 public:
  Threshold(double threshold, double value, InplaceOptions options = {})
      : threshold(threshold), value(value), inplace(options.inplace) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  double threshold, value;
  bool inplace;
};

struct PReLUOptions {
  int64_t num_parameters = 1;  // or one for each channel (dim 1)
  double init = 0.25;
};

/// LeakyReLU with slopes that are learned.
class PReLU : public Layer<PReLU> {
 public:
  explicit PReLU(PReLUOptions options = {});
  Tensor forward(const Tensor& input) const;
  void reset_parameters();
  std::string extra_repr() const override;

  PReLUOptions options;
  Parameter weight;  // num_parameters
};

/// exp(x) over its sum along a dim.
class Softmax : public Layer<Softmax> {
 public:
  /// Without a dim it is 0 for inputs of 0, 1 or 3 dims, else 1.
  explicit Softmax(std::optional<int64_t> dim = {}) : dim(dim) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  std::optional<int64_t> dim;
};

/// The logarithm of Softmax.
class LogSoftmax : public Layer<LogSoftmax> {
 public:
  /// Without a dim it is 0 for inputs of 0, 1 or 3 dims, else 1.
  explicit LogSoftmax(std::optional<int64_t> dim = {}) : dim(dim) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  std::optional<int64_t> dim;
};

/// The softmax of -x.
class Softmin : public Layer<Softmin> {
 public:
  /// Without a dim it is 0 for inputs of 0, 1 or 3 dims, else 1.
  explicit Softmin(std::optional<int64_t> dim = {}) : dim(dim) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  std::optional<int64_t> dim;
};

/// Softmax over the channels of [N, C, H, W] or [C, H, W].
class Softmax2d : public Layer<Softmax2d> {
 public:
  Tensor forward(const Tensor& input) const;
};

}  // namespace tensora::nn
