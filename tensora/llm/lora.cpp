#include "tensora/llm/lora.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "tensora/autograd/grad_mode.h"
#include "tensora/io/safetensors.h"
#include "tensora/llm/gguf/gguf_export.h"
#include "tensora/llm/hugging_face/config_fields.h"
#include "tensora/llm/model_file.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::llm {

namespace {

namespace fs = std::filesystem;

/// The two factors of each matrix, as a file has them.
struct Found {
  Tensor down, up;
  double alpha = 0;
};
struct AdapterFile {
  std::map<std::string, Found> pairs;  // by GGUF's name without ".weight"
  bool root_of_rank = false;           // the strength is alpha / √rank, not alpha / rank
  bool in_halves = true;               // how q and k pair what is rotated; see ModelFile
};

/// The fields of PEFT's LoraConfig.
constexpr ConfigFields kPeftFields = {
    .used = R"({"r": null, "lora_alpha": null, "use_rslora": false, "rank_pattern": null,
                "alpha_pattern": null})",
    .fixed = R"({"peft_type": ["LORA"], "bias": ["none"], "modules_to_save": [null, []],
                 "fan_in_fan_out": [false, null], "use_dora": [false, null],
                 "lora_bias": [false, null], "layer_replication": [null, []],
                 "trainable_token_indices": [null, [], {}], "target_parameters": [null, []],
                 "alora_invocation_tokens": [null], "use_qalora": [false, null],
                 "use_bdlora": [false, null], "megatron_config": [null], "arrow_config": [null],
                 "init_lora_weights": [true, false, null, "gaussian", "eva", "orthogonal"]})",
    // Where the factors are is known from the tensors; the rest is about training.
    .irrelevant =
        "target_modules exclude_modules layers_to_transform layers_pattern task_type lora_dropout "
        "inference_mode auto_mapping base_model_name_or_path revision megatron_core loftq_config "
        "eva_config corda_config lora_ga_config qalora_group_size ensure_weight_tying peft_version "
        "runtime_config",
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

/// Puts a factor where it belongs.
void place(AdapterFile& file, const std::string& name, bool is_down, const Tensor& tensor,
           double alpha) {
  Found& found = file.pairs[name];
  (is_down ? found.down : found.up) = tensor;
  found.alpha = alpha;
}

/// The number of the pattern that names `module`, by its last words ("self_attn.q_proj"), or
/// `otherwise`. PEFT takes regular expressions, too; those are refused.
double number_for(const JsonObject& config, const char* field, const std::string& module,
                  double otherwise) {
  const auto patterns = config.object(field);
  if (!patterns) return otherwise;
  std::optional<double> found;
  for (const auto& [words, value] : patterns->json().items()) {
    check(words.find_first_of("^$*+?()[]{}|\\") == words.npos, config.file(), ": ", field,
          ": the regular expression '", words, "' is not supported; expected the name of a module");
    if (module != words && !module.ends_with("." + words)) continue;
    const double number = patterns->number(words);
    check(!found || *found == number, config.file(), ": ", field, " has two numbers for '", module,
          "'");
    found = number;
  }
  return found.value_or(otherwise);
}

AdapterFile read_peft(const fs::path& folder) {
  std::vector<std::string> unknown;
  const ConfigFields groups[] = {kPeftFields};
  const JsonObject config =
      checked_fields(JsonObject::read((folder / "adapter_config.json").string()), groups,
                     "LoRA adapters", unknown);
  check(unknown.empty(), config.file(), ": the field '", unknown.empty() ? "" : unknown[0],
        "' is not known, and may change what the adapter computes");
  AdapterFile file;
  const double alpha = config.number("lora_alpha");
  file.root_of_rank = config.boolean("use_rslora", false);
  const std::string weights = (folder / "adapter_model.safetensors").string();
  for (const auto& [name, tensor] : io::load_safetensors(weights)) {
    const size_t down = name.find(".lora_A."), up = name.find(".lora_B.");
    const bool is_down = down != name.npos;
    check((is_down || up != name.npos) && name.ends_with(".weight"), weights, ": '", name,
          "' is neither lora_A nor lora_B, which is not supported");
    const std::string module = name.substr(0, std::min(down, up));
    const double rank = number_for(config, "rank_pattern", module, config.number("r", 0));
    check(
        rank == 0 || tensor.dim() != 2 || static_cast<double>(tensor.size(is_down ? 0 : 1)) == rank,
        config.file(), ": the rank of '", module, "' is ", rank, ", but '", name,
        "' has the shape ", tensor.sizes());
    place(file, gguf_name(weights, module), is_down, tensor,
          number_for(config, "alpha_pattern", module, alpha));
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
  check(!metadata.contains("adapter.alora.invocation_tokens"), path,
        ": activated LoRA (adapter.alora.invocation_tokens) is not supported");
  AdapterFile file;
  const double alpha = metadata.get<double>("adapter.lora.alpha");
  file.in_halves = gguf.rope_in_halves();
  for (const std::string& name : gguf.names()) {
    const bool is_down = name.ends_with(".weight.lora_a");
    check(is_down || name.ends_with(".weight.lora_b"), path, ": '", name,
          "' is neither lora_a nor lora_b, which is not supported");
    place(file, name.substr(0, name.size() - std::string_view(".weight.lora_a").size()), is_down,
          gguf.tensor(name), alpha);
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
  const auto add = [&](const std::string& name, const Tensor& down, const Tensor& up,
                       double alpha) {
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
                             .scale = alpha / (file.root_of_rank ? std::sqrt(rank) : rank)};
  };
  for (const auto& [name, found] : file.pairs) {
    check(found.down.defined() && found.up.defined(), path, ": of ", name,
          " only one of the two factors is there");
    check(found.down.dim() == 2 && found.up.dim() == 2, path, ": the factors of ", name,
          " must be matrices, got shapes ", found.down.sizes(), " and ", found.up.sizes());
    // Gate and up in one matrix, the gate first: the model has them as two.
    if (name.ends_with(".ffn_up") && found.up.size(0) == 2 * config.feed_forward) {
      const std::string gate = name.substr(0, name.size() - 6) + "ffn_gate";
      add(gate, found.down, found.up.narrow(0, 0, config.feed_forward), found.alpha);
      add(name, found.down, found.up.narrow(0, config.feed_forward, config.feed_forward),
          found.alpha);
    } else {
      add(name, found.down, found.up, found.alpha);
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
