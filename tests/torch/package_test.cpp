// Decode steps that AOTInductor has compiled. PyTorch's Python package and a C++ compiler make the
// packages; where one of them is missing, the tests that need a package are skipped.
#include "tensora/torch/package.h"

#include <cstdlib>
#include <fstream>

#include "../llm/sequences.h"
#include "../temporary_folder.h"
#include "tensora/llm/file_weights.h"
#include "tensora/llm/model_file.h"
#include "tensora/torch/backend.h"

namespace tensora::torch {
namespace {

using llm::ModelFile;
using llm::testing::difference;
using llm::testing::Sequences;
using llm::testing::some_tokens;
using llm::testing::Tokens;
using tensora::testing::contains;
using tensora::testing::error_of;
using tensora::testing::TemporaryFolder;

constexpr int64_t kContext = 40, kBlock = 64;

ModelFile model_named(const std::string& name) {
  return ModelFile::open(concat(TENSORA_TESTS "/llm/goldens/models/", name));
}

std::shared_ptr<const Decoder> decoder_of(const ModelFile& file, const std::string& package,
                                          const std::string& describe = {},
                                          int64_t block_size = kBlock) {
  const llm::ModelConfig config = llm::ModelConfig::from(file);
  llm::FileWeights weights(file, config, {.positions = kContext});
  const DecoderOptions how{.dtype = kFloat32,
                           .package = package,
                           .describe = describe,
                           .block_size = block_size,
                           .cache_dtype = kFloat32};
  return std::make_shared<const Decoder>(config, llm::find_architecture(config.architecture).design,
                                         weights, how);
}

// The exit code of tools/export_aoti.py.
int exported(const TemporaryFolder& folder, const std::string& words) {
  return std::system(concat("PYTHONPATH='" TENSORA_TORCH_PARENT "' TORCHINDUCTOR_CACHE_DIR='",
                            folder / "cache",
                            "' '" TENSORA_PYTHON "' '" TENSORA_TOOLS "/export_aoti.py' ", words,
                            " > '", folder / "log", "' 2>&1")
                         .c_str());
}

bool has_python_torch() {
  static const bool found = std::system("PYTHONPATH='" TENSORA_TORCH_PARENT "' '" TENSORA_PYTHON
                                        "' -c 'import torch' > /dev/null 2>&1") == 0;
  return found;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Steps of both sequences, which a package for two computes, and of one alone, which it does not.
void expect_same_steps(const llm::Model& model, const llm::Model& native) {
  Sequences ours(native, {.count = 2, .longest = kContext, .block_size = kContext});
  Sequences theirs(model, {.count = 2, .longest = kContext, .block_size = kBlock});
  const Tokens tokens = some_tokens(kContext, native.config().vocab_size);
  const auto step = [&](const std::vector<Tokens>& texts) {
    EXPECT_LT(difference(theirs.feed(texts), ours.feed(texts)), 1e-4);
  };
  step({{tokens[0], tokens[1], tokens[2]}, {tokens[3]}});
  for (size_t i = 4; i < 30; ++i) step({{tokens[i]}, {tokens[i + 1]}});
  step({{tokens[1]}, {}});
  step({{tokens[2]}, {tokens[3]}});
}

TEST(TorchPackage, ComputesDecodeSteps) {
  if (!has_python_torch()) GTEST_SKIP() << TENSORA_PYTHON " cannot import torch";
  const char* chosen = std::getenv("TENSORA_TEST_PACKAGE_MODELS");  // a list, for thorough tests
  std::istringstream names(chosen ? chosen : "gemma3");
  for (std::string name; names >> name;) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    const std::string about = folder / "model.json", package = folder / "model.pt2";
    const ModelFile file = model_named(name);
    decoder_of(file, "", about);
    ASSERT_EQ(exported(folder, concat("'", about, "' -s 2 -o '", package, "'")), 0)
        << text_of(folder / "log");
    const auto native = llm::load_model(file, {.positions = kContext});
    const auto model = decoder_of(file, package);
    expect_same_steps(*model, *native);
    // Behind the note about weights of another dtype, where the model has such.
    const std::vector<std::string> notes = model->notes();
    ASSERT_FALSE(notes.empty());
    EXPECT_TRUE(contains(notes.back(), "computed 27 of 28 decode steps")) << notes.back();
    const std::string other = error_of([&] { decoder_of(model_named("llama"), package); });
    EXPECT_TRUE(contains(other, "was made for another model: its ")) << other;
    const std::string longer = error_of([&] { decoder_of(file, package, "", 128); });
    EXPECT_TRUE(contains(longer,
                         "made for other options: its block_size is 64, expected 128; give "
                         "the context (-c)"))
        << longer;
  }
}

TEST(TorchPackage, RefusesWhatIsNoPackage) {
  const TemporaryFolder folder;
  const ModelFile file = model_named("llama");
  const std::string path = folder / "x.pt2";
  const auto refusal = [&] { return error_of([&] { decoder_of(file, path); }); };
  EXPECT_TRUE(contains(refusal(), "cannot be read; tools/export_aoti.py makes one")) << refusal();
  for (const std::string& contents :
       {std::string(), std::string("PK\x03\x04"), std::string(9999, 'x')}) {
    std::ofstream(path) << contents;
    EXPECT_TRUE(contains(refusal(), "cannot be loaded: ")) << refusal();
  }
  const std::string folder_of_none =
      error_of([&] { decoder_of(file, "", folder / "none/model.json"); });
  EXPECT_TRUE(contains(folder_of_none, "the setting describe")) << folder_of_none;
  const std::string experts = error_of([&] { decoder_of(model_named("mixtral"), path); });
  EXPECT_TRUE(contains(experts, "models with experts are not supported")) << experts;
}

TEST(TorchPackage, ExportRefusesOtherDescriptions) {
  if (!has_python_torch()) GTEST_SKIP() << TENSORA_PYTHON " cannot import torch";
  const TemporaryFolder folder;
  const std::string about = folder / "model.json";
  decoder_of(model_named("llama"), "", about);
  const auto complaint = [&](const std::string& words) {
    EXPECT_NE(exported(folder, words), 0);
    return text_of(folder / "log");
  };
  const std::string name = complaint(concat("'", about, "' -o model.zip"));
  EXPECT_TRUE(contains(name, "export_aoti: expected an output name that ends in .pt2")) << name;
  const std::string count = complaint(concat("'", about, "' -s 0 -o x.pt2"));
  EXPECT_TRUE(contains(count, "one sequence or more, got 64 and 0")) << count;
  std::ofstream(folder / "other.json") << "{\"format\": \"x\", \"device\": \"cpu\"}";
  const std::string format = complaint(concat("'", folder / "other.json", "' -o x.pt2"));
  EXPECT_TRUE(contains(format, "got x for cpu")) << format;
}

}  // namespace
}  // namespace tensora::torch
