#include <algorithm>
#include <array>
#include <charconv>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/base64.h"
#include "tensora/llm/tokenizer/bpe_model.h"
#include "tensora/llm/tokenizer/pipeline_tokenizer.h"
#include "tensora/llm/tokenizer/pre_tokenizers.h"
#include "tensora/llm/tokenizer/tokenizer_sources.h"

namespace tensora::llm {
namespace {

// What a file of so many ranks is known to belong to: how text is cut, and the special tokens.
struct KnownFile {
  std::string_view name, pre;
  int32_t ranks;
  int32_t first_special;  // the number of the first special token
  std::vector<std::string> special;
};

std::vector<std::string> llama3_special() {
  std::vector<std::string> out = {"<|begin_of_text|>",
                                  "<|end_of_text|>",
                                  "<|reserved_special_token_0|>",
                                  "<|reserved_special_token_1|>",
                                  "<|finetune_right_pad_id|>",
                                  "<|step_id|>",
                                  "<|start_header_id|>",
                                  "<|end_header_id|>",
                                  "<|eom_id|>",
                                  "<|eot_id|>",
                                  "<|python_tag|>"};
  for (int i = 2; out.size() < 256; ++i)
    out.push_back(concat("<|reserved_special_token_", i, "|>"));
  return out;
}

const std::vector<KnownFile>& known_files() {
  static const std::vector<KnownFile> files = {
      {"r50k", "gpt-2", 50256, 50256, {"<|endoftext|>"}},
      {"cl100k",
       "dbrx",
       100256,
       100257,
       {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"}},
      {"Llama 3", "llama-bpe", 128000, 128000, llama3_special()},
      {"Qwen", "qwen2", 151643, 151643, {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}},
      {"o200k", "gpt-4o", 199998, 199999, {"<|endoftext|>"}},
  };
  return files;
}

// The lines in the order of their ranks, which are 0, 1, 2 and so on.
std::vector<std::string> read_ranks(std::string_view text) {
  std::vector<std::string> out;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    const size_t blank = std::min(row.find(' '), row.size());
    const std::optional<std::string> bytes = from_base64(row.substr(0, blank));
    int64_t rank = -1;
    const std::string_view number = row.substr(std::min(blank + 1, row.size()));
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    check(bytes && !bytes->empty() && error == std::errc() && stop == number.data() + number.size(),
          "tiktoken file: line ", line, ": expected a token in base 64, a blank and its rank");
    check(rank == static_cast<int64_t>(out.size()), "tiktoken file: line ", line,
          ": expected the rank ", out.size(), ", got ", rank);
    out.push_back(*bytes);
  }
  check(!out.empty(), "tiktoken file: there are no tokens");
  return out;
}

}  // namespace

TokenizerPtr tokenizer_from_tiktoken(std::string_view text, const TokenizerOptions& options) {
  const std::vector<std::string> ranks = read_ranks(text);
  const auto& files = known_files();
  const auto known = std::find_if(files.begin(), files.end(), [&](const KnownFile& file) {
    return static_cast<size_t>(file.ranks) == ranks.size();
  });
  check(known != files.end() || !options.pre.empty(), "tiktoken file: ", ranks.size(),
        " ranks are not those of a known model, so it is not clear how text is to be cut; name the "
        "pre-tokenizer");
  const std::string pre = options.pre.empty() ? std::string(known->pre) : options.pre;
  const NamedPreTokenizer& cut = pre_tokenizer(pre);
  check(!cut.habits.raw_spaces, "tiktoken file: the pre-tokenizer ", pre, " is not for bytes");
  const auto vocabulary = std::make_shared<Vocabulary>();
  vocabulary->reserve(ranks.size() + 256);
  for (const std::string& bytes : ranks) {
    const Token token = vocabulary->add(bytes);
    check(vocabulary->find(bytes) == token, "tiktoken file: the token ", token, " is there twice");
    if (bytes.size() == 1) vocabulary->set_byte(static_cast<uint8_t>(bytes[0]), token);
  }
  check(vocabulary->has_all_bytes(), "tiktoken file: not every byte is a token");
  PipelineTokenizer::Parts parts;
  for (const auto& pattern : cut.patterns)
    parts.pre_tokenizer.add(PreTokenizer::Split{.pattern = pattern});
  auto model = std::make_unique<BpeModel>(vocabulary, BpeModel::Options{});
  model->add_all_merges();
  if (known != files.end()) {
    while (vocabulary->size() < known->first_special) vocabulary->add("", TokenKind::unused);
    for (const std::string& special : known->special) {
      const Token token = vocabulary->add(special, TokenKind::control);
      parts.added.add({.text = special, .token = token, .control = true});
    }
    const Token begin = vocabulary->find_any("<|begin_of_text|>");
    const Token end = vocabulary->find_any(begin >= 0 ? "<|end_of_text|>" : "<|endoftext|>");
    if (begin >= 0) parts.bos = begin;
    if (begin >= 0 && cut.habits.adds_bos) parts.before = {begin};
    parts.eos = end;
    parts.end_of_generation = end_tokens(*vocabulary, {end});
  }
  parts.model = std::move(model);
  parts.vocabulary = vocabulary;
  parts.description = concat(
      "byte pairs, pre-tokenizer ", pre, ", ", vocabulary->size(), " tokens, from a tiktoken file",
      known != files.end()
          ? concat("; recognised as ", known->name, " by its ", known->ranks, " ranks")
          : std::string("; special tokens are not known"));
  return std::make_shared<PipelineTokenizer>(std::move(parts));
}

}  // namespace tensora::llm
