#include "tensora/nn/dropout.h"

#include "tensora/base/check.h"
#include "tensora/nn/repr.h"
#include "tensora/ops/nn/dropout.h"

namespace tensora::nn {

void detail::check_dropout(double p) {
  check(p >= 0 && p <= 1, "Dropout: p must be a probability from 0 to 1, got ", p);
}

std::string detail::repr_dropout(double p, bool inplace) {
  return concat("p=", repr(p), ", inplace=", repr(inplace));
}

namespace {

// For the forms that have no kernel of their own that writes in place.
Tensor written_back(const Tensor& input, const Tensor& result, bool inplace) {
  return inplace ? input.copy_(result) : result;
}

}  // namespace

Tensor Dropout::forward(const Tensor& input) const {
  return inplace ? dropout_(input, p, is_training()) : dropout(input, p, is_training());
}
Tensor AlphaDropout::forward(const Tensor& input) const {
  return inplace ? alpha_dropout_(input, p, is_training()) : alpha_dropout(input, p, is_training());
}
Tensor Dropout1d::forward(const Tensor& input) const {
  return written_back(input, dropout1d(input, p, is_training()), inplace);
}
Tensor Dropout2d::forward(const Tensor& input) const {
  return written_back(input, dropout2d(input, p, is_training()), inplace);
}
Tensor Dropout3d::forward(const Tensor& input) const {
  return written_back(input, dropout3d(input, p, is_training()), inplace);
}
Tensor FeatureAlphaDropout::forward(const Tensor& input) const {
  return written_back(input, feature_alpha_dropout(input, p, is_training()), inplace);
}

}  // namespace tensora::nn
