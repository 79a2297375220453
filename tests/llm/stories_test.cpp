#include <fstream>
#include <sstream>

#include "../real_data.h"
#include "sequences.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {
namespace {

using tensora::testing::real_data;
using namespace testing;

/// What a token of a SentencePiece vocabulary prints.
std::string text_of(const std::string& piece) {
  if (piece.size() == 6 && piece.starts_with("<0x"))
    return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
  std::string text;
  for (size_t i = 0; i < piece.size(); ++i) {
    const bool space = piece.compare(i, 3, "\u2581") == 0;
    text += space ? ' ' : piece[i];
    if (space) i += 2;
  }
  return text;
}

std::string greedy(const Model& model, const std::vector<std::string>& pieces, DType cache) {
  Sequences sequences(model, {.longest = 256, .block_size = 16, .cache = cache});
  std::string text;
  int64_t token = 1;  // the beginning of a text
  for (int step = 0; step < 200; ++step) {
    token = sequences.feed({{token}}).argmax(-1).item<int64_t>();
    std::string piece = text_of(pieces[static_cast<size_t>(token)]);
    if (step == 0 && piece.starts_with(" ")) piece.erase(0, 1);
    text += piece;
  }
  return text;
}

// A real trained model, file to text, against the text that its author's program prints.
TEST(Stories260K, GreedyTextOf200Steps) {
  const std::string path = real_data("stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "shared/data/stories260K.gguf is not there";
  std::ifstream stream(real_data("stories260K.greedy200.txt"));
  std::stringstream expected;
  expected << stream.rdbuf();
  const ModelFile file = ModelFile::open(path);
  const auto& pieces = file.metadata().get<std::vector<std::string>>("tokenizer.ggml.tokens");
  int64_t done = 0, total = 1;
  const auto model = load_model(
      file, {.progress = [&](int64_t ready, int64_t all) { done = ready, total = all; }});
  EXPECT_EQ(done, total);
  EXPECT_EQ(model->config().layers, 5);
  EXPECT_EQ(greedy(*model, pieces, kFloat32), expected.str());
  EXPECT_EQ(greedy(*model, pieces, kFloat16), expected.str());
  // Half the bits of the weights do not change a greedy text of a trained model much.
  const auto narrow = load_model(file, {.quantize = "q8_0"});
  EXPECT_LT(narrow->bytes(), model->bytes() / 3);
  EXPECT_EQ(greedy(*narrow, pieces, kFloat32).substr(0, 100), expected.str().substr(0, 100));
}

// On the CPU weights that keep their dtype stay in the mapped file.
TEST(Stories260K, WeightsAreNotCopied) {
  const std::string path = real_data("stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "shared/data/stories260K.gguf is not there";
  const ModelFile file = ModelFile::open(path);
  const Tensor tensor = file.tensor("token_embd.weight");
  EXPECT_TRUE(Weight{tensor}.to(Device()).data.is_same(tensor));
  const auto model = load_model(file);
  EXPECT_EQ(model->bytes(), static_cast<int64_t>(file.bytes()));
}

}  // namespace
}  // namespace tensora::llm
