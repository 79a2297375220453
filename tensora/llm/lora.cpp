#include "tensora/llm/lora.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "tensora/autograd/grad_mode.h"
#include "tensora/io/safetensors.h"
#include "tensora/llm/gguf/gguf_export.h"
#include "tensora/llm/model_file.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::llm {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The two factors of each matrix, as a file has them.
struct Found {
  Tensor down, up;
};
struct AdapterFile {
  std::map<std::string, Found> pairs;  // by GGUF's name without ".weight"
  double alpha = 0;
  bool root_of_rank = false;  // the strength is alpha / √rank, not alpha / rank
  bool in_halves = true;      // how q and k pair what is rotated; see ModelFile
};

/// PEFT's last word of a name, and GGUF's.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"q_proj", "attn_q"},      {"k_proj", "attn_k"},      {"v_proj", "attn_v"},
    {"o_proj", "attn_output"}, {"qkv_proj", "attn_qkv"},  {"gate_proj", "ffn_gate"},
    {"up_proj", "ffn_up"},     {"down_proj", "ffn_down"}, {"gate_up_proj", "ffn_up"},
};

/// "base_model.model.model.layers.3.self_attn.q_proj" -> "blk.3.attn_q"
std::string gguf_name(const std::string& path, const std::string& peft) {
  const size_t at = peft.find("layers."), dot = peft.find('.', at + 7);
  if (at != peft.npos && dot != peft.npos) {
    const std::string number = peft.substr(at + 7, dot - at - 7);
    const std::string word = peft.substr(peft.rfind('.') + 1);
    for (const auto& [from, to] : kWords)
      if (word == from) return "blk." + number + "." + std::string(to);
  }
  fail(path, ": an adapter for '", peft, "' is not supported");
}

/// Puts a tensor called `name` + ending where it belongs.
void place(AdapterFile& file, const std::string& name, bool is_down, const Tensor& tensor) {
  Found& found = file.pairs[name];
  (is_down ? found.down : found.up) = tensor;
}

AdapterFile read_peft(const fs::path& folder) {
  const std::string path = (folder / "adapter_config.json").string();
  std::ifstream stream(path);
  check(stream.good(), path, ": cannot be read");
  const json config = json::parse(stream, nullptr, false);
  check(config.is_object(), path, ": is not a JSON object");
  const auto flag = [&](const char* key) { return config.contains(key) && config[key] == true; };
  check(!flag("use_dora"), path, ": DoRA adapters are not supported");
  for (const char* key : {"alpha_pattern", "rank_pattern"})
    check(!config.contains(key) || config[key].empty(), path, ": ", key, " is not supported");
  check(config.contains("lora_alpha") && config["lora_alpha"].is_number(), path,
        ": lora_alpha must be a number");
  AdapterFile file;
  file.alpha = config["lora_alpha"].get<double>();
  file.root_of_rank = flag("use_rslora");
  const std::string weights = (folder / "adapter_model.safetensors").string();
  for (const auto& [name, tensor] : io::load_safetensors(weights)) {
    const size_t down = name.find(".lora_A"), up = name.find(".lora_B");
    check(down != name.npos || up != name.npos, weights, ": '", name,
          "' is neither lora_A nor lora_B, which is not supported");
    place(file, gguf_name(weights, name.substr(0, std::min(down, up))), down != name.npos, tensor);
  }
  return file;
}

AdapterFile read_gguf(const std::string& path, const ModelConfig& config) {
  const ModelFile gguf = ModelFile::open(path);
  const Metadata& metadata = gguf.metadata();
  check(metadata.get_or("general.type", std::string()) == "adapter" &&
            metadata.get_or("adapter.type", std::string()) == "lora",
        path, ": is not a LoRA adapter");
  check(gguf.architecture() == config.architecture, path, ": is an adapter of ",
        gguf.architecture(), " models, not of ", config.architecture);
  AdapterFile file;
  file.alpha = metadata.get<double>("adapter.lora.alpha");
  file.in_halves = gguf.rope_in_halves();
  for (const std::string& name : gguf.names()) {
    const bool is_down = name.ends_with(".weight.lora_a");
    check(is_down || name.ends_with(".weight.lora_b"), path, ": '", name,
          "' is neither lora_a nor lora_b, which is not supported");
    place(file, name.substr(0, name.size() - std::string_view(".weight.lora_a").size()), is_down,
          gguf.tensor(name));
  }
  return file;
}

/// The sizes of the model's matrix of this name; none where it has no such matrix.
std::optional<std::pair<int64_t, int64_t>> matrix_sizes(const ModelConfig& c,
                                                        const std::string& name) {
  const size_t dot = name.find('.', 4);
  if (!name.starts_with("blk.") || dot == name.npos) return {};
  const std::string number = name.substr(4, dot - 4), word = name.substr(dot + 1);
  const bool digits = !number.empty() && number.size() <= 4 &&
                      number.find_first_not_of("0123456789") == number.npos;
  if (!digits || std::stoll(number) >= c.layers) return {};
  const int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
  if (word == "attn_q") return {{queries, c.hidden_size}};
  if (word == "attn_k" || word == "attn_v") return {{keys, c.hidden_size}};
  if (word == "attn_qkv") return {{queries + 2 * keys, c.hidden_size}};
  if (word == "attn_output") return {{c.hidden_size, queries}};
  if (c.experts > 0) return {};
  if (word == "ffn_gate" || word == "ffn_up") return {{c.feed_forward, c.hidden_size}};
  if (word == "ffn_down") return {{c.hidden_size, c.feed_forward}};
  return {};
}

}  // namespace

std::shared_ptr<const LoraAdapter> LoraAdapter::load(const std::string& path, const Model& model) {
  const inference_mode silent;
  const ModelConfig& config = model.config();
  const AdapterFile file = fs::is_directory(path) ? read_peft(path) : read_gguf(path, config);
  auto adapter = std::shared_ptr<LoraAdapter>(new LoraAdapter);
  adapter->path_ = path;
  const auto add = [&](const std::string& name, const Tensor& down, const Tensor& up) {
    const auto sizes = matrix_sizes(config, name);
    check(sizes.has_value(), path, ": the model has no matrix ", name);
    const double rank = static_cast<double>(down.size(0));
    check(down.sizes() == Shape{down.size(0), sizes->second} &&
              up.sizes() == Shape{sizes->first, down.size(0)} && rank > 0,
          path, ": the pair of ", name, " must have shapes [rank, ", sizes->second, "] and [",
          sizes->first, ", rank], got ", down.sizes(), " and ", up.sizes());
    Tensor rows = up;
    const bool rotated = name.ends_with(".attn_q") || name.ends_with(".attn_k");
    if (rotated && file.in_halves != config.rope_in_halves) {
      const int64_t heads = up.size(0) / config.head_dim;
      rows = config.rope_in_halves ? separate_halves(up, heads) : interleave_halves(up, heads);
    }
    const auto placed = [&](const Tensor& t) {
      return t.to(kFloat32).contiguous().to(model.device()).to(model.activation_dtype());
    };
    adapter->pairs_[name] = {.down = placed(down),
                             .up = placed(rows),
                             .scale = file.alpha / (file.root_of_rank ? std::sqrt(rank) : rank)};
  };
  for (const auto& [name, found] : file.pairs) {
    check(found.down.defined() && found.up.defined(), path, ": of ", name,
          " only one of the two factors is there");
    check(found.down.dim() == 2 && found.up.dim() == 2, path, ": the factors of ", name,
          " must be matrices, got shapes ", found.down.sizes(), " and ", found.up.sizes());
    // Gate and up in one matrix, the gate first: the model has them as two.
    if (name.ends_with(".ffn_up") && found.up.size(0) == 2 * config.feed_forward) {
      const std::string gate = name.substr(0, name.size() - 6) + "ffn_gate";
      add(gate, found.down, found.up.narrow(0, 0, config.feed_forward));
      add(name, found.down, found.up.narrow(0, config.feed_forward, config.feed_forward));
    } else {
      add(name, found.down, found.up);
    }
  }
  return adapter;
}

int64_t LoraAdapter::bytes() const {
  int64_t sum = 0;
  for (const auto& [name, pair] : pairs_)
    sum += static_cast<int64_t>(pair.down.nbytes() + pair.up.nbytes());
  return sum;
}

}  // namespace tensora::llm
