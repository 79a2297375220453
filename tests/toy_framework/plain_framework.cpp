// A framework of somebody else, step by step as docs/add-a-framework.md shows it: LLaMA written
// down as it stands in the textbook.
#include <cmath>

#include "tensora/llm/backends/backend_manager.h"
#include "tensora/llm/backends/engine_backend.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::plain {
namespace {

using llm::Batch;
using llm::ModelFile;
using llm::PagedCache;

class PlainModel final : public llm::Model {
 public:
  explicit PlainModel(const ModelFile& file)
      : Model(llm::ModelConfig::from(file), Device()), file_(file) {
    check(config().architecture == "llama" && config().rotary_dim == config().head_dim,
          "plain: expected a llama model, got ", config().architecture);
    for (const llm::TensorInfo& info : file.tensors()) bytes_ += static_cast<int64_t>(info.bytes);
  }

  Tensor forward(const Batch& batch, PagedCache& cache) const override {
    const char* head = file_.contains("output.weight") ? "output.weight" : "token_embd.weight";
    return linear(hidden(batch, cache), weight(head));
  }

  Tensor hidden(const Batch& batch, PagedCache& cache) const override {
    Tensor x = index_select(weight("token_embd.weight"), 0, batch.tokens);
    for (int64_t i = 0; i < config().layers; ++i) {
      const std::string block = concat("blk.", i, ".");
      const auto part = [&](const char* name) { return weight(concat(block, name, ".weight")); };
      x = x + linear(attention(norm(x, part("attn_norm")), block, batch, cache, i),
                     part("attn_output"));
      const Tensor h = norm(x, part("ffn_norm"));
      x = x +
          linear(silu(linear(h, part("ffn_gate"))) * linear(h, part("ffn_up")), part("ffn_down"));
    }
    if (batch.logit_rows.defined()) x = index_select(x, 0, batch.logit_rows);
    return norm(x, weight("output_norm.weight"));
  }

  int64_t bytes() const override { return bytes_; }

 private:
  Tensor weight(const std::string& name) const { return file_.tensor(name).to(kFloat32); }
  Tensor norm(const Tensor& x, const Tensor& weight) const {
    return x * rsqrt(mean(x * x, {-1}, true) + config().norm_eps) * weight;
  }

  // Rotates the pairs of each head [tokens, heads, head_dim] by angles that grow with the position.
  Tensor rotate(const Tensor& x, const Tensor& positions) const {
    const int64_t half = config().head_dim / 2;
    const Tensor exponents = arange(half) * (-2. / static_cast<double>(config().head_dim));
    const Tensor angles = positions.to(kFloat32).reshape({-1, 1, 1}) *
                          pow(config().rope.base, exponents.to(kFloat32));
    const bool halves = config().rope_in_halves;
    const Tensor pairs = halves ? x.reshape({x.size(0), x.size(1), 2, half}).transpose(2, 3)
                                : x.reshape({x.size(0), x.size(1), half, 2});
    const Tensor a = pairs.select(3, 0), b = pairs.select(3, 1);
    const Tensor turned =
        stack({a * cos(angles) - b * sin(angles), a * sin(angles) + b * cos(angles)}, 3);
    return (halves ? turned.transpose(2, 3) : turned).reshape(x.sizes());
  }

  // All keys or values of a sequence, [heads, length, head_dim]: its blocks, one after the other.
  Tensor gather(const Tensor& blocks, const int32_t* table, int64_t length) const {
    std::vector<Tensor> parts;
    for (int64_t done = 0; done < length; done += blocks.size(2))
      parts.push_back(blocks.select(0, *table++).to(kFloat32));
    return cat(parts, 1)
        .narrow(1, 0, length)
        .repeat_interleave(config().heads / config().kv_heads, 0);
  }

  Tensor attention(const Tensor& x, const std::string& block, const Batch& batch, PagedCache& cache,
                   int64_t layer) const {
    const auto heads_of = [&](const char* name, int64_t heads) {
      return linear(x, weight(concat(block, name, ".weight")))
          .reshape({x.size(0), heads, config().head_dim});
    };
    const Tensor q = rotate(heads_of("attn_q", config().heads), batch.positions);
    const Tensor k = rotate(heads_of("attn_k", config().kv_heads), batch.positions);
    const Tensor v = heads_of("attn_v", config().kv_heads);
    const Tensor &keys = cache.keys[static_cast<size_t>(layer)],
                 &values = cache.values[static_cast<size_t>(layer)];
    const int64_t size = cache.block_size();
    for (int64_t t = 0; t < x.size(0); ++t) {
      const int64_t slot = batch.slots.data_ptr<int64_t>()[t];
      keys.select(0, slot / size).select(1, slot % size).copy_(k.select(0, t));
      values.select(0, slot / size).select(1, slot % size).copy_(v.select(0, t));
    }
    const auto* starts = batch.query_starts.data_ptr<int32_t>();
    const auto* lengths = batch.lengths.data_ptr<int32_t>();
    std::vector<Tensor> seen;
    for (int64_t s = 0; s < batch.lengths.size(0); ++s) {
      const int32_t* table = batch.block_table.data_ptr<int32_t>() + s * batch.block_table.size(1);
      const int64_t count = starts[s + 1] - starts[s];
      const Tensor queries = q.narrow(0, starts[s], count).transpose(0, 1);
      Tensor scores = matmul(queries, gather(keys, table, lengths[s]).transpose(1, 2)) *
                      config().attention_scale;
      const Tensor allowed = tril(ones({count, lengths[s]}), lengths[s] - count);
      scores = where(allowed > 0, scores, full({}, -INFINITY));
      seen.push_back(
          matmul(softmax(scores, -1), gather(values, table, lengths[s])).transpose(0, 1));
    }
    return cat(seen, 0).reshape({x.size(0), -1});
  }

  ModelFile file_;
  int64_t bytes_ = 0;
};

class PlainBackend final : public llm::EngineBackend {
 public:
  explicit PlainBackend(Device device) : EngineBackend(device) {}
  std::string name() const override { return "plain"; }

 protected:
  std::shared_ptr<const llm::Model> make_model(const ModelFile& file,
                                               const llm::LoadOptions& options) const override {
    check(options.quantize.empty(), "plain: expected no quantize, got ", options.quantize);
    return std::make_shared<const PlainModel>(file);
  }
};

}  // namespace
}  // namespace tensora::plain

// What `--framework plain` looks for in libtensora_framework_plain.so.
extern "C" int tensora_framework_abi() { return tensora::llm::kFrameworkAbi; }

extern "C" void tensora_add_frameworks(tensora::llm::BackendManager& manager) {
  manager.add({.name = "plain", .devices = {"cpu"}, .make = [](tensora::Device device) {
                 return std::make_unique<tensora::plain::PlainBackend>(device);
               }});
}
