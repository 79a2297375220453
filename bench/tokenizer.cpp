// Encoding a text on one thread; bench/tokenizer.py does the same with Hugging Face's library.
//
// usage: tensora-bench-tokenizer TOKENIZER TEXT
#include <cstdio>
#include <fstream>
#include <iterator>

#include "tensora/base/check.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/tokenizer/tokenizer.h"
#include "timing.h"

namespace {

using tensora::llm::Token;
using tensora::llm::TokenizerPtr;

TokenizerPtr open(const std::string& path) {
  return path.ends_with(".gguf") ? tensora::llm::load_tokenizer(tensora::llm::ModelFile::open(path))
                                 : tensora::llm::tokenizer_from_file(path);
}

// What else runs on the machine only slows a round down.
double best(auto&& body) { return bench::measure(body).best_s; }

void run(const std::string& path, const std::string& text_path) {
  TokenizerPtr tokenizer;
  const double load = best([&] { tokenizer = open(path); });
  std::ifstream file(text_path, std::ios::binary);
  tensora::check(file.good(), text_path, ": cannot be opened");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  tensora::check(!text.empty(), text_path, ": the file is empty");
  std::printf("%s\nload %.1f ms\n", tokenizer->description().c_str(), load * 1e3);
  size_t count = 0;
  const double whole = best([&] { count = tokenizer->encode(text).size(); });
  std::printf("encode whole text     %8.1f MB/s  %zu tokens of %zu bytes\n",
              double(text.size()) / whole / 1e6, count, text.size());
  // Short texts, as a chat has them: nothing repeats within a call.
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size(); at += 200) parts.push_back(text.substr(at, 200));
  const double pieces = best([&] {
    for (const std::string& part : parts) tokenizer->encode(part);
  });
  std::printf("encode 200-byte texts %8.1f MB/s\n", double(text.size()) / pieces / 1e6);
  const std::vector<Token> tokens = tokenizer->encode(text);
  const double back = best([&] { tokenizer->decode(tokens); });
  std::printf("decode                %8.1f MB/s\n", double(text.size()) / back / 1e6);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s TOKENIZER TEXT\n", arguments[0]);
    return 2;
  }
  try {
    run(arguments[1], arguments[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
