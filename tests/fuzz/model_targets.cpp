#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "targets.h"
#include "tensora/io/byte_reader.h"
#include "tensora/llm/gguf/gguf_reader.h"
#include "tensora/llm/gguf/gguf_writer.h"
#include "tensora/llm/hugging_face/config_keys.h"
#include "tensora/llm/hugging_face/tokenizer_keys.h"
#include "tensora/llm/model_config.h"
#include "tensora/llm/tokenizer/tokenizer_sources.h"
#include "tensora/ops.h"

namespace tensora::fuzz {
namespace {

using namespace llm;

constexpr std::string_view kText =
    "Once upon a time, in 1234 or so: it's\n\n  naïve 漢字 🙂 <s>\xff";

// Text goes in and comes out again; a token is always one of the vocabulary.
void use(const TokenizerPtr& tokenizer) {
  const std::vector<Token> tokens = tokenizer->encode(kText, {.parse_special = true});
  for (const Token token : tokens)
    ensure(token >= 0 && token < tokenizer->vocab_size(), "fuzz: token ", token);
  tokenizer->decode(tokens, {.special = true});
  tokenizer->description();
}

// Parts of a file that are good are used, whatever becomes of the others.
template <class Body>
void attempt(const Body& body) {
  try {
    body();
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {  // NOLINT: refused, as it should be
  }
}

void gguf(std::string_view input) {
  const GgufHeader header = parse_gguf(io::bytes_of_text(input));
  for (const GgufTensor& tensor : header.tensors)
    ensure(tensor.begin <= input.size() && tensor.info.bytes <= input.size() - tensor.begin,
           "fuzz: the tensor ", tensor.info.name, " is outside of the file");
  attempt([&] { use(tokenizer_from(header.metadata)); });
  ModelConfig::from(header.metadata).validate();
}

// A folder that is there until the program ends.
const std::string& folder() {
  struct Folder {
    Folder() { ensure(mkdtemp(path.data()) != nullptr, "fuzz: no temporary folder"); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path = (std::filesystem::temp_directory_path() / "tensora-fuzz-XXXXXX").string();
  };
  static const Folder made;
  return made.path;
}

std::string gguf_with(const Metadata& metadata) {
  const std::string path = folder() + "/x.gguf";
  write_gguf(path, metadata,
             StateDict{{"a", ones({1, 32})}, {"b", quantize(ones({1, 32}), kQ8_0)}});
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> gguf_files() {
  Metadata metadata;
  metadata.set("general.architecture", "llama");
  metadata.set("llama.context_length", 64);
  metadata.set("llama.embedding_length", 32);
  metadata.set("llama.block_count", 1);
  metadata.set("llama.feed_forward_length", 64);
  metadata.set("llama.attention.head_count", 2);
  metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5);
  metadata.set("llama.rope.freq_base", 10000.);
  metadata.set("llama.vocab_size", 8);
  std::vector<std::string> files;
  const std::string space = "\u2581";
  const auto add = [&](const char* model, std::vector<std::string> tokens) {
    Metadata whole = metadata;
    whole.set("tokenizer.ggml.model", model);
    whole.set("tokenizer.ggml.token_type", std::vector<int64_t>{2, 3, 3, 1, 1, 1, 1, 1});
    whole.set("tokenizer.ggml.scores", std::vector<double>(tokens.size(), -1.5));
    whole.set("tokenizer.ggml.bos_token_id", 1);
    whole.set("tokenizer.ggml.eos_token_id", 2);
    if (std::string_view(model) == "gpt2") {
      whole.set("tokenizer.ggml.pre", "llama-bpe");
      whole.set("tokenizer.ggml.merges", std::vector<std::string>{"o n", "a n"});
    }
    whole.set("tokenizer.ggml.tokens", std::move(tokens));
    files.push_back(gguf_with(whole));
  };
  add("llama", {"<unk>", "<s>", "</s>", "a", "n", "on", space, "<0x41>"});
  add("gpt2", {"<unk>", "<s>", "</s>", "a", "n", "o", "on", "an"});
  add("bert", {"[UNK]", "[CLS]", "[SEP]", "a", "n", "on", space + "a", "[PAD]"});
  add("t5", {"<unk>", "<pad>", "</s>", "a", "n", "on", space, space + "a"});
  return files;
}

void tokenizer_json(std::string_view input) { use(tokenizer_from_json(input)); }

// Those of the tests, as far as they are small.
std::vector<std::string> tokenizer_files(std::string_view ending) {
  std::vector<std::string> files = files_in("llm/tokenizers", ending);
  std::erase_if(files, [](const std::string& text) { return text.size() > 50000; });
  return files;
}

void sentencepiece(std::string_view input) { use(tokenizer_from_sentencepiece(input)); }

void tiktoken(std::string_view input) { use(tokenizer_from_tiktoken(input, {.pre = "llama-bpe"})); }

// A folder whose config.json is the input, up to a line of three dashes that begins tokenizer.json.
void config_json(std::string_view input) {
  constexpr std::string_view kLine = "\n---\n";
  const size_t end = input.find(kLine);
  std::ofstream(folder() + "/config.json", std::ios::binary) << input.substr(0, end);
  std::filesystem::remove(folder() + "/tokenizer.json");
  if (end != input.npos)
    std::ofstream(folder() + "/tokenizer.json", std::ios::binary)
        << input.substr(end + kLine.size());
  FolderConfig config = read_folder_config(folder());
  attempt([&] {
    add_tokenizer_keys(folder(), "", config.metadata);
    use(tokenizer_from(config.metadata));
  });
  ModelConfig::from(config.metadata).validate();
}

std::vector<std::string> configs() {
  std::vector<std::string> list = files_in("llm/goldens/models", "/config.json");
  for (const std::string& tokenizer : tokenizer_files("llama2.json"))
    list.push_back(list[0] + "\n---\n" + tokenizer);
  return list;
}

const Target kTargets[] = {
    {"gguf", gguf, gguf_files},
    {"tokenizer_json", tokenizer_json, [] { return tokenizer_files(".json"); }},
    {"sentencepiece", sentencepiece, [] { return tokenizer_files(".model"); }},
    {"tiktoken", tiktoken, [] { return tokenizer_files(".tiktoken"); }},
    {"config_json", config_json, configs},
};

}  // namespace

std::span<const Target> model_targets() { return kTargets; }

}  // namespace tensora::fuzz
