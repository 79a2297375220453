#pragma once

#include <array>

#include "tensora/optim/optimizer.h"

namespace tensora::optim {

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int64_t ns_steps = 5;
  std::string adjust_lr_fn = "original";  // or "match_rms_adamw", "spectral_unclamped"
};

/// Momentum whose steps are made nearly orthogonal by Newton-Schulz iterations. For matrices alone:
/// give embeddings, biases and the like to another optimizer.
class Muon : public Optimizer {
 public:
  explicit Muon(Parameters params, const MuonOptions& options = {});

 protected:
  void update(ParamGroup& group) override;
  void check_state(const Tensor& param, const Value& state) const override;
};

}  // namespace tensora::optim
