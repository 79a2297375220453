#include <filesystem>

#include "sequences.h"
#include "tensora/io/safetensors.h"
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

}  // namespace
}  // namespace tensora::llm
