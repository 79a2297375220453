#include "tensora/llm/memory_plan.h"

#include <algorithm>

#include "tensora/llm/memory_tracker.h"
#include "tensora/llm/weight_type.h"

namespace tensora::llm {
namespace {

constexpr int64_t kBlock = 32;  // tokens of the cache that are handed out together

uint64_t weight_bytes(const ModelFile& file, const ModelConfig& config, const WeightType& type) {
  const bool tied = !file.contains("output.weight");
  uint64_t bytes = 0;
  for (const TensorInfo& info : file.tensors()) {
    const int64_t numbers = info.sizes.numel();
    if (info.sizes.size() <= 1) {
      bytes += static_cast<uint64_t>(4 * numbers);
      continue;
    }
    const DType dtype =
        type.dtype_for({.name = info.name,
                        .sizes = info.sizes,
                        .dtype = info.dtype,
                        .layers = config.layers,
                        .is_head = info.name == (tied ? "token_embd.weight" : "output.weight")});
    bytes += static_cast<uint64_t>(bytes_of(dtype, numbers));
    const bool scaled = dtype == kInt8 || dtype == kFloat8E4M3;  // a float32 per row
    if (scaled) bytes += static_cast<uint64_t>(4 * numbers / info.sizes.back());
  }
  return bytes;
}

uint64_t cache_bytes(const ModelConfig& config, const MemoryPlanOptions& options, int64_t context) {
  const int64_t blocks = (context + kBlock - 1) / kBlock * options.sequences;
  return static_cast<uint64_t>(blocks * kBlock * config.cache_bytes_per_token(options.cache_dtype));
}

// The tensors of the largest step: residuals, queries and results of attention, the two halves of
// the feed-forward network, logits; and the table of rotary angles.
uint64_t workspace_bytes(const ModelConfig& config, const MemoryPlanOptions& options,
                         int64_t context) {
  const int64_t width = options.device.is_cpu() ? 4 : 2;  // of activations
  const int64_t tokens = std::max(options.batch, options.sequences);
  const int64_t attention = (2 * config.heads + 2 * config.kv_heads) * config.head_dim;
  const int64_t experts = std::max<int64_t>(1, config.experts_used);
  const int64_t per_token =
      4 * 2 * config.hidden_size +
      width * (config.hidden_size + attention + 3 * experts * config.feed_forward);
  const int64_t tables = config.local_rope_base ? 2 : 1;
  return static_cast<uint64_t>(tokens * per_token + 4 * options.sequences * config.vocab_size +
                               4 * tables * context * config.rotary_dim);
}

// With a context of its own, without changes.
MemoryPlan sums(const ModelFile& file, const ModelConfig& config, const MemoryPlanOptions& options,
                int64_t context) {
  MemoryPlan plan;
  plan.weights = weight_bytes(file, config, WeightType(options.quantize));
  plan.cache = cache_bytes(config, options, context);
  plan.workspace = workspace_bytes(config, options, context);
  plan.memory = options.memory;
  plan.context = context;
  plan.model_context = config.context_length;
  plan.cache_bytes_per_token =
      static_cast<uint64_t>(config.cache_bytes_per_token(options.cache_dtype));
  return plan;
}

// Needs grow with the context, so that halving finds the largest that fits.
int64_t largest_context(const ModelFile& file, const ModelConfig& config,
                        const MemoryPlanOptions& options) {
  MemoryPlan plan = sums(file, config, options, 0);
  int64_t low = 0, high = config.context_length / kBlock;
  const auto fits = [&](int64_t context) {
    plan.cache = cache_bytes(config, options, context);
    plan.workspace = workspace_bytes(config, options, context);
    return plan.fits();
  };
  if (fits(config.context_length)) return config.context_length;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (fits(middle * kBlock))
      low = middle;
    else
      high = middle - 1;
  }
  return low * kBlock;
}

void find_changes(MemoryPlan& plan, const ModelFile& file, const ModelConfig& config,
                  const MemoryPlanOptions& options) {
  constexpr int64_t kUsefulContext = 512;
  const auto offer = [&](const std::string& option, const MemoryPlanOptions& changed,
                         int64_t context) {
    const MemoryPlan other = sums(file, config, changed, context);
    if (other.fits()) plan.changes.push_back({option, other.needed()});
    return other.fits();
  };
  const bool has_whole_blocks = config.head_dim % dtype_info(kQ8_0).block_numbers == 0;
  if (options.cache_dtype != kQ8_0 && has_whole_blocks) {
    MemoryPlanOptions changed = options;
    changed.cache_dtype = kQ8_0;
    offer("--cache-type q8_0", changed, plan.context);
  }
  if (plan.largest_context >= std::min(kUsefulContext, plan.context))
    offer(concat("--context ", plan.largest_context), options, plan.largest_context);
  for (int64_t sequences = options.sequences - 1; sequences >= 1; --sequences) {
    MemoryPlanOptions changed = options;
    changed.sequences = sequences;
    if (offer(concat("--sequences ", sequences), changed, plan.context)) break;
  }
  for (const char* type : {"q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k"}) {
    MemoryPlanOptions changed = options;
    changed.quantize = type;
    if (weight_bytes(file, config, WeightType(type)) >= plan.weights) continue;
    if (offer(concat("--quantize ", type), changed, plan.context)) break;
  }
}

}  // namespace

MemoryPlan plan_memory(const ModelFile& file, const MemoryPlanOptions& given) {
  const ModelConfig config = ModelConfig::from(file);
  MemoryPlanOptions options = given;
  if (options.memory == 0) options.memory = memory_usage(options.device).free;
  check(options.context >= 0 && options.sequences >= 1 && options.batch >= 1,
        "plan_memory: context, sequences and batch must be positive, got ", options.context, ", ",
        options.sequences, " and ", options.batch);
  constexpr int64_t kMost = int64_t{1} << 30;
  check(options.context <= kMost && options.sequences <= (1 << 20) && options.batch <= kMost,
        "plan_memory: context, sequences or batch are beyond any machine");
  check(config.head_dim % dtype_info(options.cache_dtype).block_numbers == 0,
        "plan_memory: heads of ", config.head_dim, " numbers cannot be kept as ",
        options.cache_dtype, ", which has blocks of ",
        int{dtype_info(options.cache_dtype).block_numbers});
  const int64_t context = options.context > 0 ? options.context : config.context_length;
  MemoryPlan plan = sums(file, config, options, context);
  plan.largest_context = largest_context(file, config, options);
  if (!plan.fits()) find_changes(plan, file, config, options);
  return plan;
}

}  // namespace tensora::llm
