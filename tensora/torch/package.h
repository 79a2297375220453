#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "tensora/torch/step.h"

namespace tensora::torch {

// Note [Compiled decode steps]
// AOTInductor compiles a PyTorch program to native code ahead of time. tools/export_aoti.py writes
// the decode step of a decoder in PyTorch and compiles it to a package, a .pt2 file; it reads what
// it needs to know from a description that the decoder writes. The description is kept in the
// package, and a package is refused unless its description equals the decoder's in every field.
// The package has no weights: it gets the decoder's own tensors, so nothing is stored twice.
//
// The compiled function takes tokens int64 [S], positions int64 [S], and for each layer keys and
// values [S, kv_heads, length, head_dim], which it appends to, and returns float32 logits
// [S, vocab_size]. S is fixed in the package. `length`, that of the longest sequence, is not, but
// the keys' strides are: they are views of a static cache whose blocks have `block_size` positions,
// more than any sequence. A package is native code: it may do whatever the program may do.

/// The decode step of a decoder, compiled by AOTInductor.
class Package {
 public:
  /// The names of the decoder's tensors, by which a package asks for them.
  using Constants = std::unordered_map<std::string, at::Tensor>;

  /// Throws for a file that cannot be opened, and for a package that was made for another model.
  Package(const std::string& path, const nlohmann::json& description, Constants constants);
  ~Package();
  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;

  /// Whether the package can compute this step.
  bool fits(const Step& step) const;
  /// float32 logits [S, vocab_size].
  at::Tensor logits(Step& step) const;
  /// What the package has computed, in a sentence.
  std::string note() const;
  /// Counts a decode step that the package did not compute.
  void count_other_step() const { ++other_; }

 private:
  class Loaded;
  std::string path_;
  std::unique_ptr<Loaded> loaded_;
  int64_t sequences_ = 0;
  Constants constants_;  // the compiled code has their addresses
  mutable std::atomic<int64_t> computed_{0}, other_{0};
};

}  // namespace tensora::torch
