#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "tensora/core/tensor.h"

namespace tensora::llm {

class LoraAdapter;

/// The tokens `begin` … `end` - 1 of a batch use an adapter, with its own strength times `scale`.
struct AdapterUse {
  std::shared_ptr<const LoraAdapter> adapter;
  int64_t begin = 0, end = 0;
  double scale = 1;
};

/// What Model::forward throws where Batch::is_abandoned says that nobody wants the result any more.
class StepAbandoned : public std::exception {
 public:
  const char* what() const noexcept override { return "the step was abandoned"; }
};

/// One step of a model: T tokens of S sequences, those of a sequence side by side. A sequence of a
/// prefill has many tokens in it, one that is being continued has one. All tensors are on the
/// model's device; the numbers are what the host must know without asking the device.
struct Batch {
  Tensor tokens;               // int64 [T]
  Tensor positions;            // int64 [T]: each token's place in its sequence
  Tensor slots;                // int64 [T]: block · block_size + place in the cache; -1: not kept
  Tensor query_starts;         // int32 [S + 1]: where each sequence's tokens begin
  Tensor lengths;              // int32 [S]: of each sequence with the tokens of this step
  Tensor block_table;          // int32 [S, blocks]: the blocks of each sequence, in order
  Tensor logit_rows;           // int64 [R]: the tokens whose logits are wanted; undefined: all
  Tensor choice_numbers;       // how sample_tokens chooses by these logits;
  Tensor choice_integers;      // undefined: it does not
  int64_t max_query = 0;       // the most tokens of one sequence in this step
  int64_t single_queries = 0;  // the first so many sequences have one token each
  int64_t max_length = 0;      // no sequence is longer; a bound is enough
  std::vector<AdapterUse> adapters = {};
  /// Asked between the parts of a step that reads prompts, which may take seconds; may be null.
  std::function<bool()> is_abandoned = nullptr;

  void check_wanted() const {
    if (max_query > 1 && is_abandoned && is_abandoned()) throw StepAbandoned();
  }
};

}  // namespace tensora::llm
