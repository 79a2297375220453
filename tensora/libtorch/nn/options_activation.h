#pragma once

// Options of activations, dropouts and distances.

#include "tensora/libtorch/enum.h"

namespace torch::nn {

struct ELUOptions {
  TORCH_ARG(double, alpha) = 1.0;
  TORCH_ARG(bool, inplace) = false;
};
namespace functional {
using ELUFuncOptions = ELUOptions;
}

struct SELUOptions {
  SELUOptions(bool inplace = false) : inplace_(inplace) {}  // NOLINT: implicit
  TORCH_ARG(bool, inplace);
};
namespace functional {
using SELUFuncOptions = SELUOptions;
}

struct GLUOptions {
  GLUOptions(int64_t dim = -1) : dim_(dim) {}  // NOLINT: implicit
  TORCH_ARG(int64_t, dim);
};
namespace functional {
using GLUFuncOptions = GLUOptions;
}

struct GELUOptions {
  TORCH_ARG(std::string, approximate) = "none";
};
namespace functional {
using GELUFuncOptions = GELUOptions;
}

struct HardshrinkOptions {
  HardshrinkOptions(double lambda = 0.5) : lambda_(lambda) {}  // NOLINT: implicit
  TORCH_ARG(double, lambda);
};
namespace functional {
using HardshrinkFuncOptions = HardshrinkOptions;
}

struct HardtanhOptions {
  TORCH_ARG(double, min_val) = -1.0;
  TORCH_ARG(double, max_val) = 1.0;
  TORCH_ARG(bool, inplace) = false;
};
namespace functional {
using HardtanhFuncOptions = HardtanhOptions;
}

struct LeakyReLUOptions {
  TORCH_ARG(double, negative_slope) = 1e-2;
  TORCH_ARG(bool, inplace) = false;
};
namespace functional {
using LeakyReLUFuncOptions = LeakyReLUOptions;
}

struct SoftmaxOptions {
  SoftmaxOptions(int64_t dim) : dim_(dim) {}  // NOLINT: implicit
  TORCH_ARG(int64_t, dim);
};

namespace functional {
struct SoftmaxFuncOptions {
  SoftmaxFuncOptions(int64_t dim) : dim_(dim) {}  // NOLINT: implicit
  TORCH_ARG(int64_t, dim);
  TORCH_ARG(std::optional<Dtype>, dtype) = std::nullopt;
};
}  // namespace functional

struct SoftminOptions {
  SoftminOptions(int64_t dim) : dim_(dim) {}  // NOLINT: implicit
  TORCH_ARG(int64_t, dim);
};

namespace functional {
struct SoftminFuncOptions {
  SoftminFuncOptions(int64_t dim) : dim_(dim) {}  // NOLINT: implicit
  TORCH_ARG(int64_t, dim);
  TORCH_ARG(std::optional<Dtype>, dtype) = std::nullopt;
};
}  // namespace functional

struct LogSoftmaxOptions {
  LogSoftmaxOptions(int64_t dim) : dim_(dim) {}  // NOLINT: implicit
  TORCH_ARG(int64_t, dim);
};

namespace functional {
struct LogSoftmaxFuncOptions {
  LogSoftmaxFuncOptions(int64_t dim) : dim_(dim) {}  // NOLINT: implicit
  TORCH_ARG(int64_t, dim);
  TORCH_ARG(std::optional<Dtype>, dtype) = std::nullopt;
};
}  // namespace functional

struct PReLUOptions {
  TORCH_ARG(int64_t, num_parameters) = 1;
  TORCH_ARG(double, init) = 0.25;
};

struct ReLUOptions {
  ReLUOptions(bool inplace = false) : inplace_(inplace) {}  // NOLINT: implicit
  TORCH_ARG(bool, inplace);
};
namespace functional {
using ReLUFuncOptions = ReLUOptions;
}

struct ReLU6Options {
  ReLU6Options(bool inplace = false) : inplace_(inplace) {}  // NOLINT: implicit
  TORCH_ARG(bool, inplace);
};
namespace functional {
using ReLU6FuncOptions = ReLU6Options;
}

struct RReLUOptions {
  TORCH_ARG(double, lower) = 1.0 / 8.0;
  TORCH_ARG(double, upper) = 1.0 / 3.0;
  TORCH_ARG(bool, inplace) = false;
};

namespace functional {
struct RReLUFuncOptions {
  TORCH_ARG(double, lower) = 1.0 / 8.0;
  TORCH_ARG(double, upper) = 1.0 / 3.0;
  TORCH_ARG(bool, training) = false;
  TORCH_ARG(bool, inplace) = false;
};
}  // namespace functional

struct CELUOptions {
  TORCH_ARG(double, alpha) = 1.0;
  TORCH_ARG(bool, inplace) = false;
};
namespace functional {
using CELUFuncOptions = CELUOptions;
}

struct SoftplusOptions {
  TORCH_ARG(double, beta) = 1.0;
  TORCH_ARG(double, threshold) = 20.0;
};
namespace functional {
using SoftplusFuncOptions = SoftplusOptions;
}

struct SoftshrinkOptions {
  SoftshrinkOptions(double lambda = 0.5) : lambda_(lambda) {}  // NOLINT: implicit
  TORCH_ARG(double, lambda);
};
namespace functional {
using SoftshrinkFuncOptions = SoftshrinkOptions;
}

struct ThresholdOptions {
  ThresholdOptions(double threshold, double value) : threshold_(threshold), value_(value) {}
  TORCH_ARG(double, threshold);
  TORCH_ARG(double, value);
  TORCH_ARG(bool, inplace) = false;
};
namespace functional {
using ThresholdFuncOptions = ThresholdOptions;
}

namespace functional {
struct GumbelSoftmaxFuncOptions {
  TORCH_ARG(double, tau) = 1.0;
  TORCH_ARG(bool, hard) = false;
  TORCH_ARG(int, dim) = -1;
};
}  // namespace functional

struct DropoutOptions {
  DropoutOptions(double p = 0.5) : p_(p) {}  // NOLINT: implicit
  TORCH_ARG(double, p);
  TORCH_ARG(bool, inplace) = false;
};

using Dropout2dOptions = DropoutOptions;
using Dropout3dOptions = DropoutOptions;
using AlphaDropoutOptions = DropoutOptions;
using FeatureAlphaDropoutOptions = DropoutOptions;
namespace functional {
struct DropoutFuncOptions {
  TORCH_ARG(double, p) = 0.5;
  TORCH_ARG(bool, training) = true;
  TORCH_ARG(bool, inplace) = false;
};
}  // namespace functional

namespace functional {
using Dropout2dFuncOptions = DropoutFuncOptions;
}
namespace functional {
using Dropout3dFuncOptions = DropoutFuncOptions;
}
namespace functional {
struct AlphaDropoutFuncOptions {
  TORCH_ARG(double, p) = 0.5;
  TORCH_ARG(bool, training) = false;
  TORCH_ARG(bool, inplace) = false;
};
}  // namespace functional

namespace functional {
struct FeatureAlphaDropoutFuncOptions {
  TORCH_ARG(double, p) = 0.5;
  TORCH_ARG(bool, training) = false;
  TORCH_ARG(bool, inplace) = false;
};
}  // namespace functional

struct CosineSimilarityOptions {
  TORCH_ARG(int64_t, dim) = 1;
  TORCH_ARG(double, eps) = 1e-8;
};
namespace functional {
using CosineSimilarityFuncOptions = CosineSimilarityOptions;
}

struct PairwiseDistanceOptions {
  TORCH_ARG(double, p) = 2.0;
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(bool, keepdim) = false;
};
namespace functional {
using PairwiseDistanceFuncOptions = PairwiseDistanceOptions;
}

}  // namespace torch::nn
