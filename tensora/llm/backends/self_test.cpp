#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <system_error>

#include "tensora/llm/backends/framework_backend.h"
#include "tensora/llm/gguf/gguf_writer.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

constexpr int64_t kHidden = 32, kFeedForward = 64, kVocabulary = 32, kHeads = 2, kHeadDim = 16;

// Numbers that are easily made anywhere, and unlike one another.
Tensor wave(const Shape& sizes, int salt, double scale, double offset = 0) {
  Tensor tensor = make_tensor(sizes, kFloat32, Device());
  auto* data = tensor.data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const auto x = static_cast<double>(i);
    data[i] = static_cast<float>(
        offset + static_cast<float>(scale * std::sin((0.7 + 0.11 * salt) * x + 0.0031 * x * x)));
  }
  return tensor;
}

// Controls, a blank and letters.
void set_tiny_vocabulary(Metadata& metadata) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "\u2581", "ab", "ba"};
  for (char letter = 'a'; letter <= 'z'; ++letter) tokens.emplace_back(1, letter);
  std::vector<int64_t> types(tokens.size(), 1);
  types[0] = 2;
  types[1] = types[2] = 3;
  ensure(std::ssize(tokens) == kVocabulary, "self_test: expected a vocabulary of ", kVocabulary);
  metadata.set("tokenizer.ggml.model", "llama");
  metadata.set("tokenizer.ggml.scores", std::vector<double>(tokens.size(), -1),
               MetadataType::float32);
  metadata.set("tokenizer.ggml.token_type", types, MetadataType::int32);
  metadata.set("tokenizer.ggml.tokens", tokens);
  metadata.set("tokenizer.ggml.bos_token_id", 1);
  metadata.set("tokenizer.ggml.eos_token_id", 2);
  metadata.set("tokenizer.ggml.unknown_token_id", 0);
}

void write_tiny_model(const std::string& path) {
  Metadata metadata;
  metadata.set("general.architecture", "llama");
  metadata.set("general.name", "self-test");
  metadata.set("llama.context_length", 64);
  metadata.set("llama.embedding_length", kHidden);
  metadata.set("llama.block_count", 1);
  metadata.set("llama.feed_forward_length", kFeedForward);
  metadata.set("llama.attention.head_count", kHeads);
  metadata.set("llama.attention.head_count_kv", 1);
  metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5, MetadataType::float32);
  metadata.set("llama.rope.dimension_count", kHeadDim);
  metadata.set("llama.rope.freq_base", 10000., MetadataType::float32);
  metadata.set("llama.vocab_size", kVocabulary);
  set_tiny_vocabulary(metadata);
  StateDict tensors;
  tensors.insert("token_embd.weight", wave({kVocabulary, kHidden}, 1, 1));
  tensors.insert("blk.0.attn_norm.weight", wave({kHidden}, 2, 0.1, 1));
  tensors.insert("blk.0.attn_q.weight", wave({kHidden, kHidden}, 3, 0.25));
  tensors.insert("blk.0.attn_k.weight", wave({kHeadDim, kHidden}, 4, 0.25));
  tensors.insert("blk.0.attn_v.weight", wave({kHeadDim, kHidden}, 5, 0.25));
  tensors.insert("blk.0.attn_output.weight", wave({kHidden, kHidden}, 6, 0.25));
  tensors.insert("blk.0.ffn_norm.weight", wave({kHidden}, 7, 0.1, 1));
  tensors.insert("blk.0.ffn_gate.weight", wave({kFeedForward, kHidden}, 8, 0.25));
  tensors.insert("blk.0.ffn_up.weight", wave({kFeedForward, kHidden}, 9, 0.25));
  tensors.insert("blk.0.ffn_down.weight", wave({kHidden, kFeedForward}, 10, 0.25));
  tensors.insert("output_norm.weight", wave({kHidden}, 11, 0.1, 1));
  tensors.insert("output.weight", wave({kVocabulary, kHidden}, 12, 0.5));
  write_gguf(path, metadata, tensors);
}

// Computed in float64 by a program of its own.
struct Known {
  int32_t token;
  double logprob;
};
constexpr Known kAnswer[] = {
    {7, -0.166135}, {15, -0.627082}, {16, -0.332076}, {21, -0.897471}, {1, -1.426608}};

struct TemporaryFile {
  TemporaryFile() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tensora-self-test-XXXXXX").string();
    check(mkdtemp(pattern.data()) != nullptr, "self_test: no folder can be made in ", pattern);
    folder = pattern;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  std::string folder;
};

}  // namespace

void self_test(FrameworkBackend& backend) {
  const TemporaryFile temporary;
  const std::string path = temporary.folder + "/tiny.gguf";
  write_tiny_model(path);
  const CleanupScope scope(backend);
  backend.load_model(path, {.engine = {.context = 64}});
  backend.load_tokenizer(path);
  const TokenizerPtr tokenizer = backend.tokenizer();
  check(tokenizer != nullptr, "self_test: ", backend.label(), " has no tokenizer after ",
        "load_tokenizer");
  check(tokenizer->decode(tokenizer->encode("abc")) == "abc", "self_test: the tokenizer of ",
        backend.label(), " does not decode what it has encoded");
  const Completion answer = backend.generate({.tokens = {1, 5, 9},
                                              .sampling = {.temperature = 0, .logprobs = true},
                                              .max_tokens = std::ssize(kAnswer)},
                                             nullptr);
  check(answer.tokens.size() == std::size(kAnswer), "self_test: ", backend.label(), " gave ",
        answer.tokens.size(), " tokens instead of ", std::size(kAnswer));
  check(answer.logprobs.size() == answer.tokens.size(), "self_test: ", backend.label(),
        " gave no log-probabilities");
  for (size_t i = 0; i < std::size(kAnswer); ++i) {
    check(answer.tokens[i] == kAnswer[i].token, "self_test: ", backend.label(), " gave token ",
          answer.tokens[i], " at place ", i, " instead of ", kAnswer[i].token);
    // Room for activations of 8 bits of precision.
    const double found = answer.logprobs[i].logprob;
    check(std::abs(found - kAnswer[i].logprob) < 0.05, "self_test: ", backend.label(),
          " gave log-probability ", found, " at place ", i, " instead of ", kAnswer[i].logprob);
  }
}

}  // namespace tensora::llm
