#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "sequences.h"
#include "tensora/io/safetensors.h"
#include "tensora/llm/gguf/gguf_export.h"
#include "tensora/llm/hugging_face/folder_export.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {
namespace {

namespace fs = std::filesystem;
using namespace testing;

/// The folders that make_models.py wrote: those of the repository, or of TENSORA_TEST_MODELS.
std::vector<fs::path> folders() {
  const char* const given = std::getenv("TENSORA_TEST_MODELS");
  std::vector<fs::path> found;
  if (given && !fs::exists(given)) return found;
  for (const auto& entry :
       fs::directory_iterator(given ? given : TENSORA_TESTS "/llm/goldens/models"))
    if (fs::exists(entry.path() / "expected.safetensors")) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// Hugging Face's transformers computed the expected logits in float32.
TEST(HuggingFace, LogitsOfEveryArchitecture) {
  const std::vector<fs::path> all = folders();
  if (all.empty()) GTEST_SKIP() << "transformers, which makes the models, is not installed";
  for (const fs::path& folder : all) {
    SCOPED_TRACE(folder.filename().string());
    const StateDict expected = io::load_safetensors((folder / "expected.safetensors").string());
    const Tokens tokens = to_vector<int64_t>(expected["tokens"]);
    const auto length = static_cast<int64_t>(tokens.size());
    // transformers chooses longrope's factors by the text's length, an engine by its own limit.
    const auto model = load_model(ModelFile::open(folder.string()), {.positions = length});
    EXPECT_LT(difference(Sequences(*model, {.longest = length}).feed({tokens}), expected["logits"]),
              1e-4);
  }
}

/// Numbers as GGUF stores them, lists and texts.
std::map<std::string, std::string> values_of(const Metadata& metadata) {
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : metadata) {
    if (key == "general.name") continue;  // the folder's
    const double* number = std::get_if<double>(&value.contents());
    result[key] = number ? concat(static_cast<float>(*number)) : value.to_string();
  }
  return result;
}

// A folder, the GGUF file made of it and the folder made of that are one model.
TEST(HuggingFace, FolderAndGgufAgree) {
  const fs::path made = fs::temp_directory_path() / ("tensora-agree-" + std::to_string(getpid()));
  for (const fs::path& folder : folders()) {
    SCOPED_TRACE(folder.filename().string());
    fs::create_directories(made);
    const std::string gguf = (made / "model.gguf").string(), again = (made / "again").string();
    export_gguf(ModelFile::open(folder.string()), gguf);
    export_folder(ModelFile::open(gguf), again);
    const StateDict expected = io::load_safetensors((folder / "expected.safetensors").string());
    const Tokens tokens = to_vector<int64_t>(expected["tokens"]);
    const auto length = static_cast<int64_t>(tokens.size());
    for (const std::string& path : {gguf, again}) {
      const auto model = load_model(ModelFile::open(path), {.positions = length});
      const Tensor logits = Sequences(*model, {.longest = length}).feed({tokens});
      EXPECT_LT(difference(logits, expected["logits"]), 1e-4) << path;
    }
    EXPECT_EQ(values_of(ModelFile::open(folder.string()).metadata()),
              values_of(ModelFile::open(again).metadata()));
    fs::remove_all(made);
  }
}

// What transformers would read as something else if it were not there, or not exact.
TEST(HuggingFace, WritesWhatTransformersReads) {
  const fs::path made = fs::temp_directory_path() / ("tensora-written-" + std::to_string(getpid()));
  struct Row {
    const char *model, *field, *value;
  };
  for (const Row& row : {
           Row{"llama-biases", "attention_bias", "true"},
           Row{"llama-biases", "mlp_bias", "true"},
           Row{"llama", "attention_bias", "false"},
           Row{"llama", "model_type", "\"llama\""},
           Row{"llama-yarn-scales", "rope_scaling",
               R"({"attention_factor":1.0665471,"beta_fast":16.0,"factor":4.0,)"
               R"("original_max_position_embeddings":16,"rope_type":"yarn","truncate":false})"},
           Row{"llama-dynamic", "rope_scaling", R"({"factor":2.0,"rope_type":"dynamic"})"},
           Row{"mistral", "sliding_window", "7"},
           Row{"mixtral", "model_type", "\"mixtral\""},
           Row{"qwen2-window", "use_sliding_window", "true"},
           Row{"qwen2-window", "max_window_layers", "1"},
           Row{"qwen3-bias", "attention_bias", "true"},
           Row{"qwen3moe", "norm_topk_prob", "true"},
           Row{"qwen3moe-raw", "norm_topk_prob", "false"},
           Row{"gemma2-plain", "query_pre_attn_scalar", "24"},
           Row{"gemma2-plain", "attn_logit_softcapping", "null"},
           Row{"gemma2-plain", "layer_types", R"(["full_attention","sliding_attention"])"},
           Row{"gemma3", "query_pre_attn_scalar", "11"},
           Row{"gemma3-linear", "rope_local_base_freq", "50.0"},
       }) {
    const std::string gguf = (made / "model.gguf").string(), again = (made / "again").string();
    fs::create_directories(made);
    export_gguf(ModelFile::open(TENSORA_TESTS "/llm/goldens/models/" + std::string(row.model)),
                gguf);
    export_folder(ModelFile::open(gguf), again);
    std::ifstream stream(again + "/config.json");
    const auto json = nlohmann::json::parse(stream);
    ASSERT_TRUE(json.contains(row.field)) << row.model << " " << row.field;
    EXPECT_EQ(json[row.field].dump(), row.value) << row.model << " " << row.field;
    fs::remove_all(made);
  }
}

}  // namespace
}  // namespace tensora::llm
