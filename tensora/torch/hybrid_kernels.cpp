#include <algorithm>

#include "tensora/ops.h"
#include "tensora/torch/bridge.h"
#include "tensora/torch/kernels.h"

namespace tensora::torch {

HybridKernels::HybridKernels(const llm::ModelConfig& config, at::ScalarType dtype,
                             RopeTables tables, Device device,
                             const std::vector<std::string>& chosen)
    : Kernels(config, dtype, std::move(tables)), device_(device) {
  for (const char* kernel : kHybridKernels)
    used_[kernel] = std::ranges::find(chosen, kernel) != chosen.end();
}

bool HybridKernels::uses(const char* kernel) const {
  const std::lock_guard lock(mutex_);
  return used_.at(kernel);
}

std::vector<std::string> HybridKernels::notes() const {
  const std::lock_guard lock(mutex_);
  std::string ours, theirs;
  for (const auto& [kernel, used] : used_)
    (used ? ours : theirs) += ((used ? ours : theirs).empty() ? "" : ", ") + kernel;
  std::vector<std::string> notes{concat("Tensora's kernels: ", ours.empty() ? "none" : ours,
                                        theirs.empty() ? "" : "; LibTorch's: ", theirs)};
  for (const auto& [kernel, reason] : failed_)
    notes.push_back(concat("Tensora's kernel ", kernel, " failed, LibTorch's is used: ", reason));
  return notes;
}

template <class Ours, class Theirs>
at::Tensor HybridKernels::either(const char* kernel, const Ours& ours, const Theirs& theirs) const {
  if (uses(kernel)) {
    try {
      return ours();
    } catch (const OutOfMemoryError&) {
      throw;  // no fault of the kernel
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      used_[kernel] = false;
      failed_[kernel] = error.what();
    }
  }
  return theirs();
}

llm::Projection::Input HybridKernels::given(const Input& x) const {
  if (x.norm) return {from_torch(x.x), x.norm->ours, config().norm_eps};
  return {from_torch(x.x)};
}

at::Tensor HybridKernels::embedding(const Step& step, const Matrix& matrix) const {
  return either(
      "matmul",
      [&] {
        const llm::Weight& weight = matrix.ours.weight(0);
        return to_torch(
            quant_embedding(step.batch().tokens, weight.data,
                            {.scale = weight.scale, .factor = config().embedding_scale}));
      },
      [&] { return Kernels::embedding(step, matrix); });
}

at::Tensor HybridKernels::norm_by_either(const at::Tensor& x, const Norm& norm,
                                         at::ScalarType result) const {
  return either(
      "norm",
      [&] {
        return to_torch(std::get<0>(residual_rms_norm(
            from_torch(x), norm.ours, {.eps = config().norm_eps, .dtype = tensora_dtype(result)})));
      },
      [&] { return normalised_now(x, norm, result); });
}

// As in llm::Decoder, the products of few tokens normalise them themselves.
Input HybridKernels::normalised(const at::Tensor& x, const Norm& norm, bool must_be_done) const {
  const int64_t few = device_.is_cpu() ? 16 : 1;
  if (!must_be_done && x.size(0) <= few && uses("norm") && uses("matmul")) return {x, &norm};
  return {norm_by_either(x, norm, dtype())};
}

at::Tensor HybridKernels::branch_norm(const at::Tensor& x, const Norm& norm) const {
  return norm_by_either(x, norm, residual_dtype());
}

at::Tensor HybridKernels::linear(const Input& x, const Matrix& matrix,
                                 const at::Tensor& residual) const {
  return either(
      "matmul",
      [&] {
        const bool adds = residual.defined();
        return to_torch(matrix.ours(given(x), {},
                                    {.residual = adds ? from_torch(residual) : Tensor(),
                                     .dtype = adds ? kFloat32 : tensora_dtype(dtype())}));
      },
      [&] { return Kernels::linear(x, matrix, residual); });
}

at::Tensor HybridKernels::gated(const Input& x, const GatedLayer& layer) const {
  const Matrix& both = layer.gate_up;
  if (uses("matmul") && uses("swiglu") && !both.bias.defined())
    return either(
        "swiglu",
        [&] {
          const llm::Weight &gate = both.ours.weight(0), &up = both.ours.weight(1);
          const auto input = given(x);
          return to_torch(quant_gated(input.x, gate.data, up.data,
                                      {.activation = layer.activation,
                                       .gate_scale = gate.scale,
                                       .up_scale = up.scale,
                                       .dtype = tensora_dtype(dtype()),
                                       .norm = input.norm,
                                       .eps = input.eps}));
        },
        [&] { return gated(x, layer); });
  const auto halves = linear(x, both, {}).chunk(2, 1);
  const auto theirs = [&] { return combined(halves[0].clone(), halves[1], layer.activation); };
  if (layer.activation != Activation::silu) return theirs();
  return either(
      "swiglu", [&] { return to_torch(swiglu(from_torch(halves[0]), from_torch(halves[1]))); },
      theirs);
}

at::Tensor HybridKernels::experts(const at::Tensor& x, const ExpertsLayer& layer,
                                  const at::Tensor& residual) const {
  return either(
      "matmul",
      [&] {
        return to_torch(
            layer.ours(from_torch(x), residual.defined() ? from_torch(residual) : Tensor()));
      },
      [&] { return Kernels::experts(x, layer, residual); });
}

at::Tensor HybridKernels::attention(Step& step, const AttentionLayer& layer,
                                    const at::Tensor& qkv) const {
  const llm::Batch& batch = step.batch();
  const auto number = static_cast<size_t>(layer.number);
  const Tensor &keys = step.cache().keys[number], &values = step.cache().values[number];
  const bool own = layer.is_local && tables().ours_local.defined();
  const Tensor& table = own ? tables().ours_local : tables().ours;
  const PagedStoreOptions store{.heads = config().heads,
                                .kv_heads = config().kv_heads,
                                .in_halves = config().rope_in_halves,
                                .q_norm = layer.q_norm.ours,
                                .k_norm = layer.k_norm.ours,
                                .eps = config().norm_eps};
  const PagedAttentionOptions attend{.scale = config().attention_scale,
                                     .softcap = config().attention_softcap,
                                     .window = window_of(layer),
                                     .max_query = batch.max_query,
                                     .max_length = batch.max_length};
  const auto flat = [&](const at::Tensor& seen) { return seen.reshape({qkv.size(0), -1}); };
  if (uses("rope") && uses("attention"))
    return flat(either(
        "attention",
        [&] {
          return to_torch(paged_self_attention(from_torch(qkv), batch.positions, batch.slots, keys,
                                               values, table, batch.query_starts, batch.lengths,
                                               batch.block_table, {store, attend}));
        },
        [&] { return attention(step, layer, qkv); }));
  const at::Tensor queries = either(
      "rope",
      [&] {
        return to_torch(
            paged_store(from_torch(qkv), batch.positions, batch.slots, keys, values, table, store));
      },
      [&] { return rotated_and_stored(step, layer, qkv); });
  return flat(either(
      "attention",
      [&] {
        return to_torch(paged_attention(from_torch(queries.contiguous()), keys, values,
                                        batch.query_starts, batch.lengths, batch.block_table,
                                        attend));
      },
      [&] { return step.attend(layer.number, queries, window_of(layer)); }));
}

at::Tensor HybridKernels::logits(const Input& x, const Matrix& head) const {
  return either(
      "matmul", [&] { return to_torch(head.ours(given(x), {}, {.dtype = kFloat32})); },
      [&] { return Kernels::logits(x, head); });
}

}  // namespace tensora::torch
