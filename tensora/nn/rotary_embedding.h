#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tensora/core/tensor.h"

namespace tensora::nn {

/// How rotary angles are stretched beyond the length that a model was first trained on. The names
/// and the meaning of the numbers are those of Hugging Face's `rope_scaling`.
struct RopeScaling {
  std::string type = "default";  // linear, dynamic, yarn, longrope or llama3
  double factor = 1;
  int64_t original_max_positions = 0;  // max_positions of the embedding, if 0
  // llama3: wavelengths between original / high and original / low are blended.
  double low_freq_factor = 1, high_freq_factor = 4;
  // yarn
  double beta_fast = 32, beta_slow = 1;
  std::optional<double> mscale = {}, mscale_all_dim = {};
  bool truncate = true;
  // yarn, longrope: a factor of cosines and sines
  std::optional<double> attention_factor = {};
  // longrope: a divisor of each frequency, up to the original length and beyond it
  std::vector<double> short_factor = {}, long_factor = {};

  bool operator==(const RopeScaling&) const = default;
};

struct RotaryOptions {
  int64_t max_positions = 2048;  // what the model was trained on; not a limit
  double base = 10000;
  bool interleaved = false;  // pairs (2 i, 2 i + 1) as in GPT-J, not (i, i + size / 2) as in NeoX
  RopeScaling scaling = {};

  bool operator==(const RotaryOptions&) const = default;
};

/// Rotary position embedding: turns pairs of elements of each head by angles that grow with the
/// position. It has no parameters; its tables are made when they are first needed, grow with the
/// positions, and are shared by all copies of the object.
class RotaryEmbedding {
 public:
  /// `size`: how many elements of each head are turned; those behind them stay.
  explicit RotaryEmbedding(int64_t size, RotaryOptions options = {});

  /// query: B H T D, key: B G T D, at positions `start` … `start` + T - 1; both in one pass.
  std::tuple<Tensor, Tensor> operator()(const Tensor& query, const Tensor& key,
                                        int64_t start = 0) const;
  /// At given positions (T or B T), all below `length`.
  std::tuple<Tensor, Tensor> operator()(const Tensor& query, const Tensor& key,
                                        const Tensor& positions, int64_t length) const;
  /// Cosines and sines (float32, positions × size / 2) that hold for sequences of `length`.
  std::tuple<Tensor, Tensor> tables(int64_t length, Device device) const;
  /// What a step of one position adds to the angles, and the factor of cosines and sines.
  std::pair<std::vector<float>, double> frequencies(int64_t length) const;

  int64_t size() const { return size_; }
  const RotaryOptions& options() const { return options_; }

 private:
  struct Tables;
  int64_t size_;
  RotaryOptions options_;
  std::shared_ptr<Tables> tables_;
};

}  // namespace tensora::nn
