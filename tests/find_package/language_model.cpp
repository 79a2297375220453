// A program that links Tensora::llm: a tokenizer of tensora/llm and a text of tensora/train, and an
// op of the library beneath them.
#include <cstdio>

#include "tensora/llm/tokenizer/bpe_tokenizer.h"
#include "tensora/tensora.h"
#include "tensora/train/number_text.h"

int main() {
  using namespace tensora;
  const llm::BpeTokenizer tokenizer = llm::BpeTokenizer::bytes();
  const auto tokens = tokenizer.encode("a stitch in time");
  const Tensor x = tensor(std::vector<int32_t>(tokens.begin(), tokens.end()));
  std::printf("linked with Tensora::llm: %s tokens\n", train::figure_text(x.numel()).c_str());
  return tokenizer.decode(tokens) == "a stitch in time" && x.sum().item<int64_t>() > 0 ? 0 : 1;
}
