#include <unistd.h>

#include <filesystem>

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
    fs::remove_all(made);
  }
}

}  // namespace
}  // namespace tensora::llm
