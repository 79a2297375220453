#pragma once

// Options of losses.

#include "tensora/libtorch/enum.h"

namespace torch::nn {

using distance_function_t = std::function<Tensor(const Tensor&, const Tensor&)>;

struct L1LossOptions {
  L1LossOptions() = default;
  template <std::derived_from<enumtype::Text> Enumerator>
  L1LossOptions(const Enumerator& reduction) : reduction_(reduction) {}  // NOLINT: implicit
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using L1LossFuncOptions = L1LossOptions;
}

struct KLDivLossOptions {
  KLDivLossOptions() = default;
  template <std::derived_from<enumtype::Text> Enumerator>
  KLDivLossOptions(const Enumerator& reduction) : reduction_(reduction) {}  // NOLINT: implicit
  TORCH_ARG(Choice, reduction) = kMean;
  TORCH_ARG(bool, log_target) = false;
};
namespace functional {
using KLDivFuncOptions = KLDivLossOptions;
}

struct MSELossOptions {
  MSELossOptions() = default;
  template <std::derived_from<enumtype::Text> Enumerator>
  MSELossOptions(const Enumerator& reduction) : reduction_(reduction) {}  // NOLINT: implicit
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using MSELossFuncOptions = MSELossOptions;
}

struct BCELossOptions {
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using BinaryCrossEntropyFuncOptions = BCELossOptions;
}

struct HingeEmbeddingLossOptions {
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using HingeEmbeddingLossFuncOptions = HingeEmbeddingLossOptions;
}

struct MultiMarginLossOptions {
  TORCH_ARG(int64_t, p) = 1;
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using MultiMarginLossFuncOptions = MultiMarginLossOptions;
}

struct CosineEmbeddingLossOptions {
  TORCH_ARG(double, margin) = 0.0;
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using CosineEmbeddingLossFuncOptions = CosineEmbeddingLossOptions;
}

struct MultiLabelMarginLossOptions {
  MultiLabelMarginLossOptions() = default;
  template <std::derived_from<enumtype::Text> Enumerator>
  MultiLabelMarginLossOptions(const Enumerator& reduction)  // NOLINT: implicit
      : reduction_(reduction) {}
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using MultilabelMarginLossFuncOptions = MultiLabelMarginLossOptions;
}

struct SoftMarginLossOptions {
  SoftMarginLossOptions() = default;
  template <std::derived_from<enumtype::Text> Enumerator>
  SoftMarginLossOptions(const Enumerator& reduction) : reduction_(reduction) {}  // NOLINT: implicit
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using SoftMarginLossFuncOptions = SoftMarginLossOptions;
}

struct MultiLabelSoftMarginLossOptions {
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using MultilabelSoftMarginLossFuncOptions = MultiLabelSoftMarginLossOptions;
}

struct TripletMarginLossOptions {
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(double, p) = 2.0;
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(bool, swap) = false;
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using TripletMarginLossFuncOptions = TripletMarginLossOptions;
}

struct TripletMarginWithDistanceLossOptions {
  using reduction_t = Choice;
  using distance_function_t = nn::distance_function_t;
  TORCH_ARG(std::optional<distance_function_t>, distance_function) = std::nullopt;
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(bool, swap) = false;
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using TripletMarginWithDistanceLossFuncOptions = TripletMarginWithDistanceLossOptions;
}

struct CTCLossOptions {
  TORCH_ARG(int64_t, blank) = 0;
  TORCH_ARG(Choice, reduction) = kMean;
  TORCH_ARG(bool, zero_infinity) = false;
};
namespace functional {
using CTCLossFuncOptions = CTCLossOptions;
}

struct SmoothL1LossOptions {
  SmoothL1LossOptions() = default;
  template <std::derived_from<enumtype::Text> Enumerator>
  SmoothL1LossOptions(const Enumerator& reduction) : reduction_(reduction) {}  // NOLINT: implicit
  TORCH_ARG(Choice, reduction) = kMean;
  TORCH_ARG(std::optional<double>, beta) = std::nullopt;
};
namespace functional {
using SmoothL1LossFuncOptions = SmoothL1LossOptions;
}

struct HuberLossOptions {
  HuberLossOptions() = default;
  template <std::derived_from<enumtype::Text> Enumerator>
  HuberLossOptions(const Enumerator& reduction) : reduction_(reduction) {}  // NOLINT: implicit
  TORCH_ARG(Choice, reduction) = kMean;
  TORCH_ARG(double, delta) = 1.0;
};
namespace functional {
using HuberLossFuncOptions = HuberLossOptions;
}

struct PoissonNLLLossOptions {
  TORCH_ARG(bool, log_input) = true;
  TORCH_ARG(bool, full) = false;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using PoissonNLLLossFuncOptions = PoissonNLLLossOptions;
}

struct MarginRankingLossOptions {
  TORCH_ARG(double, margin) = 0.0;
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using MarginRankingLossFuncOptions = MarginRankingLossOptions;
}

struct NLLLossOptions {
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(int64_t, ignore_index) = -100;
  TORCH_ARG(Choice, reduction) = kMean;
};
namespace functional {
using NLLLossFuncOptions = NLLLossOptions;
}

struct CrossEntropyLossOptions {
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(int64_t, ignore_index) = -100;
  TORCH_ARG(Choice, reduction) = kMean;
  TORCH_ARG(double, label_smoothing) = 0.0;
};
namespace functional {
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
}

struct BCEWithLogitsLossOptions {
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(Choice, reduction) = kMean;
  TORCH_ARG(Tensor, pos_weight) = {};
};
namespace functional {
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
}

}  // namespace torch::nn
