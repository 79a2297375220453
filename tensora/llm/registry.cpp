#include "tensora/llm/registry.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/base/settings.h"

namespace tensora::llm {

namespace {

namespace fs = std::filesystem;

constexpr int64_t k128K = 131072;

// Sizes in the order of RegistryEntry::Sizes: hidden, layers, heads, key heads, head, feed-forward,
// vocabulary, context.
constexpr RegistryEntry entries[] = {
    {"stories15m",
     "TinyStories 15M",
     "llama",
     {288, 6, 6, 6, 48, 768, 32000, 256},
     {.tied = true,
      .repository = "ggml-org/models",
      .file = "tinyllamas/stories15M-q4_0.gguf",
      .revision = "499bc8821c6b12b4e53c5bffcb21ec206f212d81",
      .sha256 = "66967fbece6dbe97886593fdbb73589584927e29119ec31f08090732d1861739"}},
    {"stories110m",
     "TinyStories 110M",
     "llama",
     {768, 12, 12, 12, 64, 2048, 32000, 1024},
     {.tied = true}},
    {"smollm",
     "SmolLM2 135M",
     "llama",
     {576, 30, 9, 3, 64, 1536, 49152, 8192},
     {.rope_base = 1e5, .tied = true}},
    {"smollm-360m",
     "SmolLM2 360M",
     "llama",
     {960, 32, 15, 5, 64, 2560, 49152, 8192},
     {.rope_base = 1e5,
      .tied = true,
      .repository = "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF",
      .file = "smollm2-360m-instruct-q8_0.gguf"}},
    {"smollm-1.7b",
     "SmolLM2 1.7B",
     "llama",
     {2048, 24, 32, 32, 64, 8192, 49152, 8192},
     {.rope_base = 1.3e5, .tied = true}},
    {"tinyllama",
     "TinyLlama 1.1B",
     "llama",
     {2048, 22, 32, 4, 64, 5632, 32000, 2048},
     {.repository = "TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF",
      .file = "tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf",
      .revision = "52e7645ba7c309695bec7ac98f4f005b139cf465",
      .sha256 = "9fecc3b3cd76bba89d504f29b616eedf7da85b96540e490ca5824d3f7d2776a0"}},
    {"llama2-7b", "Llama 2 7B", "llama", {4096, 32, 32, 32, 128, 11008, 32000, 4096}, {}},
    {"llama3-1b",
     "Llama 3.2 1B",
     "llama",
     {2048, 16, 32, 8, 64, 8192, 128256, k128K},
     {.rope_base = 5e5,
      .tied = true,
      .rope_factor = 32,
      .repository = "bartowski/Llama-3.2-1B-Instruct-GGUF",
      .file = "Llama-3.2-1B-Instruct-Q4_K_M.gguf",
      .revision = "067b946cf014b7c697f3654f621d577a3e3afd1c",
      .sha256 = "6f85a640a97cf2bf5b8e764087b1e83da0fdb51d7c9fab7d0fece9385611df83"}},
    {"llama3-3b",
     "Llama 3.2 3B",
     "llama",
     {3072, 28, 24, 8, 128, 8192, 128256, k128K},
     {.rope_base = 5e5,
      .tied = true,
      .rope_factor = 32,
      .repository = "bartowski/Llama-3.2-3B-Instruct-GGUF",
      .file = "Llama-3.2-3B-Instruct-Q4_K_M.gguf",
      .sha256 = "6c1a2b41161032677be168d354123594c0e6e67d2b9227c84f296ad037c728ff"}},
    {"llama3-8b",
     "Llama 3.1 8B",
     "llama",
     {4096, 32, 32, 8, 128, 14336, 128256, k128K},
     {.rope_base = 5e5,
      .rope_factor = 8,
      .repository = "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF",
      .file = "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
      .revision = "bf5b95e96dac0462e2a09145ec66cae9a3f12067",
      .sha256 = "7b064f5842bf9532c91456deda288a1b672397a54fa729aa665952863033557c"}},
    {"llama3-70b",
     "Llama 3.3 70B",
     "llama",
     {8192, 80, 64, 8, 128, 28672, 128256, k128K},
     {.rope_base = 5e5,
      .rope_factor = 8,
      .repository = "bartowski/Llama-3.3-70B-Instruct-GGUF",
      .file = "Llama-3.3-70B-Instruct-Q4_K_M.gguf"}},
    {"mistral-7b",
     "Mistral 7B v0.3",
     "llama",
     {4096, 32, 32, 8, 128, 14336, 32768, 32768},
     {.rope_base = 1e6}},
    {"mixtral-8x7b",
     "Mixtral 8x7B",
     "llama",
     {4096, 32, 32, 8, 128, 14336, 32000, 32768},
     {.rope_base = 1e6, .experts = 8, .experts_used = 2}},
    {"qwen2.5-0.5b",
     "Qwen2.5 0.5B",
     "qwen2",
     {896, 24, 14, 2, 64, 4864, 151936, 32768},
     {.rope_base = 1e6,
      .norm_eps = 1e-6,
      .tied = true,
      .repository = "Qwen/Qwen2.5-0.5B-Instruct-GGUF",
      .file = "qwen2.5-0.5b-instruct-q4_k_m.gguf",
      .revision = "9217f5db79a29953eb74d5343926648285ec7e67",
      .sha256 = "74a4da8c9fdbcd15bd1f6d01d621410d31c6fc00986f5eb687824e7b93d7a9db"}},
    {"qwen2.5-1.5b",
     "Qwen2.5 1.5B",
     "qwen2",
     {1536, 28, 12, 2, 128, 8960, 151936, 32768},
     {.rope_base = 1e6,
      .norm_eps = 1e-6,
      .tied = true,
      .repository = "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
      .file = "qwen2.5-1.5b-instruct-q4_k_m.gguf",
      .revision = "91cad51170dc346986eccefdc2dd33a9da36ead9",
      .sha256 = "6a1a2eb6d15622bf3c96857206351ba97e1af16c30d7a74ee38970e434e9407e"}},
    {"qwen2.5-7b",
     "Qwen2.5 7B",
     "qwen2",
     {3584, 28, 28, 4, 128, 18944, 152064, 32768},
     {.rope_base = 1e6, .norm_eps = 1e-6}},
    {"qwen3-0.6b",
     "Qwen3 0.6B",
     "qwen3",
     {1024, 28, 16, 8, 128, 3072, 151936, 40960},
     {.rope_base = 1e6, .norm_eps = 1e-6, .tied = true}},
    {"qwen3-4b",
     "Qwen3 4B",
     "qwen3",
     {2560, 36, 32, 8, 128, 9728, 151936, 40960},
     {.rope_base = 1e6, .norm_eps = 1e-6, .tied = true}},
    {"qwen3-8b",
     "Qwen3 8B",
     "qwen3",
     {4096, 36, 32, 8, 128, 12288, 151936, 40960},
     {.rope_base = 1e6, .norm_eps = 1e-6}},
    {"gemma2-2b",
     "Gemma 2 2B",
     "gemma2",
     {2304, 26, 8, 4, 256, 9216, 256000, 8192},
     {.norm_eps = 1e-6, .tied = true, .window = 4096}},
    {"gemma3-1b",
     "Gemma 3 1B",
     "gemma3",
     {1152, 26, 4, 1, 256, 6912, 262144, 32768},
     {.rope_base = 1e6, .norm_eps = 1e-6, .tied = true, .window = 512}},
    {"gemma3-4b",
     "Gemma 3 4B",
     "gemma3",
     {2560, 34, 8, 4, 256, 10240, 262208, k128K},
     {.rope_base = 1e6, .norm_eps = 1e-6, .tied = true, .window = 1024, .rope_factor = 8}},
    {"phi3-mini",
     "Phi-3 mini 4K",
     "phi3",
     {3072, 32, 32, 32, 96, 8192, 32064, 4096},
     {.window = 2047}},
};

std::string known_names() {
  std::string result;
  for (const RegistryEntry& entry : entries)
    result += (result.empty() ? "" : ", ") + std::string(entry.name);
  return result;
}

/// The only model among a folder's .gguf files; of a split model, its first.
std::string gguf_in(const fs::path& folder) {
  std::vector<std::string> found;
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    const bool later_part = name.find("-of-") != name.npos && name.find("-00001-of-") == name.npos;
    if (file.path().extension() == ".gguf" && !later_part) found.push_back(file.path().string());
  }
  std::sort(found.begin(), found.end());
  check(!found.empty(), folder.string(), ": no model is in this folder: neither config.json nor a ",
        ".gguf file");
  std::string list;
  for (const std::string& each : found) list += "\n  " + each;
  check(found.size() == 1, folder.string(),
        ": several models are in this folder; name one of them:", list);
  return found[0];
}

}  // namespace

Metadata RegistryEntry::metadata() const {
  Metadata data;
  const Sizes& s = sizes;
  const std::string prefix = std::string(architecture) + ".";
  data.set("general.architecture", std::string(architecture));
  data.set("general.name", std::string(title));
  data.set(prefix + "context_length", s.context_length);
  data.set(prefix + "embedding_length", s.hidden_size);
  data.set(prefix + "block_count", s.layers);
  data.set(prefix + "feed_forward_length", s.feed_forward);
  data.set(prefix + "attention.head_count", s.heads);
  data.set(prefix + "attention.head_count_kv", s.kv_heads);
  data.set(prefix + "attention.key_length", s.head_dim);
  data.set(prefix + "attention.value_length", s.head_dim);
  data.set(prefix + "attention.layer_norm_rms_epsilon", details.norm_eps);
  data.set(prefix + "rope.freq_base", details.rope_base);
  data.set(prefix + "vocab_size", s.vocab_size);
  if (details.window > 0) data.set(prefix + "attention.sliding_window", details.window);
  if (details.experts > 0) {
    data.set(prefix + "expert_count", details.experts);
    data.set(prefix + "expert_used_count", details.experts_used);
  }
  if (details.rope_factor != 1) {
    const bool llama = architecture == "llama";
    data.set(prefix + "rope.scaling.type", std::string(llama ? "llama3" : "linear"));
    data.set(prefix + "rope.scaling.factor", details.rope_factor);
    if (llama) data.set(prefix + "rope.scaling.original_context_length", 8192);
  }
  return data;
}

ModelConfig RegistryEntry::config() const {
  ModelConfig config = ModelConfig::from(metadata());
  config.validate();
  return config;
}

int64_t RegistryEntry::parameters() const {
  const Sizes& s = sizes;
  const int64_t attention = 2 * s.hidden_size * s.head_dim * (s.heads + s.kv_heads);
  const int64_t networks =
      3 * s.hidden_size * s.feed_forward * std::max<int64_t>(1, details.experts) +
      s.hidden_size * details.experts;
  return s.vocab_size * s.hidden_size * (details.tied ? 1 : 2) + s.hidden_size +
         s.layers * (attention + networks + 2 * s.hidden_size);
}

std::span<const RegistryEntry> registry() { return entries; }

const RegistryEntry& find_registered(std::string_view name) {
  for (const RegistryEntry& entry : entries)
    if (entry.name == name) return entry;
  fail("there is no registered model '", name, "'; known are ", known_names());
}

std::string models_folder() {
  if (const std::string_view given = setting("TENSORA_MODELS"); !given.empty())
    return std::string(given);
  const std::string_view home = setting("HOME");
  check(!home.empty(), "models: neither TENSORA_MODELS nor HOME is set");
  return (fs::path(home) / ".cache/tensora/models").string();
}

std::string RegistryEntry::address(std::string_view server) const {
  check(!details.file.empty(), "models: no file of ", name, " is known; give its address");
  return concat(server, "/", details.repository, "/resolve/", details.revision, "/", details.file);
}

std::string pulled_path(const RegistryEntry& entry) {
  const std::string_view file = entry.details.file;
  check(!file.empty(), "models: no file of ", entry.name, " is known; give a path");
  return (fs::path(models_folder()) / file.substr(file.rfind('/') + 1)).string();
}

std::string resolve_model(const std::string& path_or_name) {
  std::error_code error;
  const fs::path path(path_or_name);
  if (fs::is_directory(path, error)) {
    // `tensora train lm --out run` keeps its own settings in run/config.json, its model below.
    if (fs::exists(path / "metrics.jsonl", error) && fs::exists(path / "model/config.json", error))
      return (path / "model").string();
    return fs::exists(path / "config.json", error) ? path_or_name : gguf_in(path);
  }
  if (fs::exists(path, error)) return path_or_name;
  for (const RegistryEntry& entry : entries) {
    if (entry.name != path_or_name) continue;
    const std::string pulled = pulled_path(entry);
    check(fs::exists(pulled, error), "models: ", entry.name, " is not on this machine (", pulled,
          "); get it with `tensora pull ", entry.name, "`");
    return pulled;
  }
  check(path_or_name.find('/') == std::string::npos && path.extension() != ".gguf",
        "there is no file or folder '", path_or_name, "'");
  fail("there is no file, folder or known model '", path_or_name, "'; known models are ",
       known_names());
}

}  // namespace tensora::llm
