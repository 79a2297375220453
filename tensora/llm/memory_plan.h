#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensora/llm/model_config.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {

struct MemoryPlanOptions {
  Device device = {};
  int64_t context = 0;    // tokens of one sequence; 0: the model's
  int64_t sequences = 1;  // at once
  int64_t batch = 512;    // tokens of a prompt that are read at once
  DType cache_dtype = DType::float16;
  std::string quantize = {};  // as in LoadOptions
  uint64_t memory = 0;        // to be used at most; 0: what is free on the device
};

/// What running a model takes, in bytes.
struct MemoryPlan {
  uint64_t weights = 0, cache = 0, workspace = 0;
  uint64_t memory = 0;                 // that there is
  int64_t context = 0;                 // that was asked for
  int64_t largest_context = 0;         // that fits; at most what the model was trained for
  int64_t model_context = 0;           // what it was trained for
  uint64_t cache_bytes_per_token = 0;  // of one sequence
  /// Single changes after which it would fit, the one that takes least away first; empty where it
  /// fits, or where nothing would.
  struct Change {
    std::string option;  // as the commands take it: "--context 4096"
    uint64_t needed = 0;
  };
  std::vector<Change> changes;

  uint64_t needed() const { return weights + cache + workspace; }
  bool fits() const { return needed() <= memory; }
};

/// Adds up weights, keys and values, and the tensors of a step. Reads no weights.
MemoryPlan plan_memory(const ModelFile& file, const MemoryPlanOptions& options = {});

}  // namespace tensora::llm
