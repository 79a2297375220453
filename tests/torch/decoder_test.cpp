// The decoders that LibTorch computes, against Tensora's own.
#include "tensora/torch/decoder.h"

#include <ATen/ATen.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../llm/sequences.h"
#include "../real_data.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/backend/cpu/isa.h"
#include "tensora/core/backend.h"
#include "tensora/io/safetensors.h"
#include "tensora/llm/file_weights.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/synthetic_weights.h"
#include "tensora/torch/backend.h"
#include "tensora/torch/bridge.h"

namespace tensora::torch {
namespace {

namespace fs = std::filesystem;
using llm::ModelFile;
using llm::testing::difference;
using llm::testing::Sequences;
using llm::testing::Tokens;
using tensora::testing::contains;
using tensora::testing::error_of;
using tensora::testing::real_data;

std::vector<fs::path> model_folders() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(TENSORA_TESTS "/llm/goldens/models"))
    if (fs::exists(entry.path() / "expected.safetensors")) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::shared_ptr<const Decoder> decoder_of(const ModelFile& file, const DecoderOptions& how,
                                          int64_t positions, const std::string& quantize = {}) {
  const llm::ModelConfig config = llm::ModelConfig::from(file);
  llm::FileWeights weights(file, config, {.quantize = quantize, .positions = positions});
  return std::make_shared<const Decoder>(config, llm::find_architecture(config.architecture).design,
                                         weights, how);
}

const DecoderOptions kFloat32Alone{.dtype = kFloat32, .hybrid = false, .kernels = {}};

DecoderOptions hybrid(std::vector<std::string> kernels = {std::begin(kHybridKernels),
                                                          std::end(kHybridKernels)}) {
  return {.dtype = {}, .hybrid = true, .kernels = std::move(kernels)};
}

// Each text is read at once, in parts beside another one, and token by token.
void expect_equal(const llm::Model& model, const llm::Model& native, const Tokens& tokens) {
  const auto length = static_cast<int64_t>(tokens.size());
  for (const int64_t block : {int64_t{4}, length}) {  // paged, and static
    SCOPED_TRACE(concat("blocks of ", block));
    Sequences ours(native, {.count = 2, .longest = length, .block_size = block});
    Sequences theirs(model, {.count = 2, .longest = length, .block_size = block});
    const auto step = [&](const std::vector<Tokens>& texts) {
      EXPECT_LT(difference(theirs.feed(texts), ours.feed(texts)), 1e-4);
    };
    const auto part = [&](size_t from, size_t to) {
      return Tokens(tokens.begin() + static_cast<ptrdiff_t>(from),
                    tokens.begin() + static_cast<ptrdiff_t>(to));
    };
    const size_t all = tokens.size(), half = all / 2;
    step({part(0, half), part(0, 1)});
    step({part(half, half + 2), part(1, half)});
    for (size_t i = half + 2; i < all; ++i) step({part(i, i + 1), part(i - 2, i - 1)});
  }
}

TEST(TorchDecoder, LogitsOfEveryArchitecture) {
  std::vector<std::string> architectures;
  for (const fs::path& folder : model_folders()) {
    SCOPED_TRACE(folder.filename().string());
    const ModelFile file = ModelFile::open(folder.string());
    const StateDict expected = io::load_safetensors((folder / "expected.safetensors").string());
    const Tokens tokens = to_vector<int64_t>(expected["tokens"]);
    const auto length = static_cast<int64_t>(tokens.size());
    const auto native = llm::load_model(file, {.positions = length});
    for (const DecoderOptions& how : {kFloat32Alone, hybrid(), hybrid({})}) {
      SCOPED_TRACE(how.hybrid ? concat("hybrid with ", how.kernels.size(), " kernels")
                              : "libtorch");
      const auto model = decoder_of(file, how, length);
      EXPECT_EQ(model->activation_dtype(), kFloat32);
      EXPECT_LT(
          difference(Sequences(*model, {.longest = length}).feed({tokens}), expected["logits"]),
          1e-4);
      expect_equal(*model, *native, tokens);
      EXPECT_TRUE(!how.hybrid || model->notes().size() == 1);  // no kernel failed
    }
    architectures.push_back(native->config().architecture);
  }
  for (const std::string& each : llm::known_architectures())
    EXPECT_NE(std::ranges::find(architectures, each), architectures.end()) << each;
}

constexpr int64_t kGreedy = 200, kGreedyContext = 224;

// Begins with `tokens` and goes on with the most probable ones.
Tokens greedy(const llm::Model& model, Tokens tokens = {1, 5, 9}) {
  Sequences sequence(model, {.longest = kGreedyContext, .block_size = kGreedyContext});
  Tensor logits = sequence.feed({tokens});
  while (std::ssize(tokens) < kGreedy) {
    tokens.push_back(to_vector<int64_t>(argmax(logits, -1)).back());
    logits = sequence.feed({{tokens.back()}});
  }
  return tokens;
}

TEST(TorchDecoder, TwoHundredGreedyTokensOfEveryArchitecture) {
  for (const fs::path& folder : model_folders()) {
    SCOPED_TRACE(folder.filename().string());
    const ModelFile file = ModelFile::open(folder.string());
    const Tokens expected = greedy(*llm::load_model(file, {.positions = kGreedyContext}));
    EXPECT_EQ(greedy(*decoder_of(file, kFloat32Alone, kGreedyContext)), expected);
    EXPECT_EQ(greedy(*decoder_of(file, hybrid(), kGreedyContext)), expected);
  }
}

TEST(TorchDecoder, EachKernelOfHybridAlone) {
  const ModelFile file = ModelFile::open(TENSORA_TESTS "/llm/goldens/models/qwen3");
  const auto native = llm::load_model(file, {.positions = 16});
  Tokens tokens;
  for (int64_t i = 0; i < 16; ++i) tokens.push_back((i * 7 + 3) % native->config().vocab_size);
  for (const char* kernel : kHybridKernels) {
    SCOPED_TRACE(kernel);
    const auto model = decoder_of(file, hybrid({kernel}), 16);
    expect_equal(*model, *native, tokens);
    EXPECT_TRUE(contains(model->notes().at(0), concat("Tensora's kernels: ", kernel)));
  }
}

// Tensora's kernels do not take a cache of float64; LibTorch's do.
TEST(TorchDecoder, AKernelThatFailsIsReplacedAndNamed) {
  const ModelFile file = ModelFile::open(TENSORA_TESTS "/llm/goldens/models/llama");
  const auto native = llm::load_model(file, {.positions = 8});
  const auto model = decoder_of(file, hybrid(), 8);
  EXPECT_EQ(model->notes(),
            (std::vector<std::string>{"Tensora's kernels: attention, matmul, norm, rope, swiglu"}));
  Sequences ours(*native, {.longest = 8}), theirs(*model, {.longest = 8});
  for (auto* part : {&theirs.cache().keys, &theirs.cache().values})
    for (Tensor& layer : *part) layer = layer.to(kFloat64);
  for (const std::vector<Tokens>& step : {std::vector<Tokens>{{1, 2, 3}}, {{4}}, {{5}}})
    EXPECT_LT(difference(theirs.feed(step), ours.feed(step)), 1e-4);
  const auto notes = model->notes();
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0], "Tensora's kernels: matmul, norm, swiglu; LibTorch's: attention, rope");
  EXPECT_TRUE(contains(notes[1], "Tensora's kernel attention failed, LibTorch's is used: "));
  EXPECT_TRUE(contains(notes[2], "Tensora's kernel rope failed, LibTorch's is used: "));
  EXPECT_TRUE(contains(notes[2], "paged_store: not supported for float64")) << notes[2];
}

TEST(TorchDecoder, HiddenStates) {
  const ModelFile file = ModelFile::open(TENSORA_TESTS "/llm/goldens/models/gemma3");
  const auto native = llm::load_model(file, {.positions = 8});
  const auto model = decoder_of(file, kFloat32Alone, 8);
  Sequences ours(*native, {.longest = 8}), theirs(*model, {.longest = 8});
  const Tensor expected = native->hidden(ours.batch({{1, 2, 3}}), ours.cache());
  const Tensor found = model->hidden(theirs.batch({{1, 2, 3}}), theirs.cache());
  EXPECT_LT(difference(found, expected), 1e-4);
}

// Weights on the CPU are those of the mapped file: the same address, so the same bits.
TEST(TorchDecoder, WeightsAreTheFiles) {
  const ModelFile file = ModelFile::open(TENSORA_TESTS "/llm/goldens/models/llama");
  const llm::ModelConfig config = llm::ModelConfig::from(file);
  llm::FileWeights weights(file, config, {});
  Matrix qkv, down;
  Norm norm;
  Loader loader(weights, torch_dtype(weights.matrix_dtype("blk.0.attn_output.weight")), false);
  loader.matrix(qkv,
                {{"blk.0.attn_q", config.heads * config.head_dim},
                 {"blk.0.attn_k", config.kv_heads * config.head_dim},
                 {"blk.0.attn_v", config.kv_heads * config.head_dim}},
                config.hidden_size);
  loader.matrix(down, {{"blk.0.ffn_down", config.hidden_size}}, config.feed_forward);
  loader.norm(norm, "blk.0.attn_norm.weight", config.hidden_size);
  loader.run();
  EXPECT_FALSE(loader.has_converted());
  const Tensor stored = file.tensor("blk.0.ffn_down.weight");
  ASSERT_EQ(down.dense.size(), 1u);
  EXPECT_TRUE(at::equal(down.dense[0], to_torch(stored)));
  const char* names[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"};
  const at::Tensor all = at::cat(qkv.dense, 0);
  std::vector<at::Tensor> parts;
  for (const char* name : names) parts.push_back(to_torch(file.tensor(name)));
  EXPECT_TRUE(at::equal(all, at::cat(parts, 0)));
  const at::Tensor factors = to_torch(file.tensor("blk.0.attn_norm.weight"));
  EXPECT_TRUE(at::equal(norm.wide, factors.to(at::kFloat)));
  EXPECT_TRUE(at::equal(norm.narrow, factors));
  EXPECT_EQ(down.dense[0].data_ptr(), stored.data_ptr());
}

// A weight that is missing or has another shape is refused before anything is loaded.
TEST(TorchDecoder, RefusesWhatTheFileLacks) {
  const ModelFile file = ModelFile::open(TENSORA_TESTS "/llm/goldens/models/llama");
  const llm::ModelConfig config = llm::ModelConfig::from(file);
  llm::FileWeights weights(file, config, {});
  Loader loader(weights, at::kFloat, false);
  Matrix matrix;
  EXPECT_TRUE(contains(error_of([&] {
                         loader.matrix(matrix, {{"blk.9.ffn_up", 4}}, 4);
                       }),
                       "no tensor blk.9.ffn_up.weight"));
  EXPECT_TRUE(contains(error_of([&] {
                         loader.matrix(matrix, {{"blk.0.ffn_up", 4}}, 4);
                       }),
                       "must have shape [4, 4]"));
}

TEST(TorchDecoder, QuantizedWeightsAreConvertedAndTheReportSaysSo) {
  const std::string stories = real_data("stories260K.gguf");
  if (stories.empty()) GTEST_SKIP() << "there is no stories260K.gguf";
  const Tokens tokens{1, 403, 407, 261, 378, 417, 268, 286};
  const auto feed = [&](const llm::Model& model) {
    return Sequences(model, {.longest = 16}).feed({tokens});
  };
  const ModelFile file = ModelFile::open(stories);
  const auto native = llm::load_model(file, {.quantize = "q8_0", .positions = 16});
  const auto model = decoder_of(file, kFloat32Alone, 16, "q8_0");
  EXPECT_TRUE(model->is_dequantized());
  EXPECT_EQ(model->notes(),
            (std::vector<std::string>{"quantized weights were converted to float32"}));
  // Native rounds activations to 8 bits beside quantized weights.
  EXPECT_LT(difference(feed(*model), feed(*native)), 0.05);
  const auto narrow = decoder_of(file, {}, 16, "q8_0");
  // Of the half types, the one that LibTorch multiplies fast here.
  EXPECT_EQ(narrow->activation_dtype(), cpu::multiplies_bf16() ? kBFloat16 : kFloat16);
  EXPECT_LT(difference(feed(*narrow), feed(*model)), 0.05);
  // Hybrid multiplies by them as they are.
  const auto mixed = decoder_of(file, hybrid(), 16, "q8_0");
  EXPECT_FALSE(mixed->is_dequantized());
  EXPECT_LT(mixed->bytes(), model->bytes() / 2);
  EXPECT_LT(difference(feed(*mixed), feed(*native)), 1e-4);
}

// LibTorch has a kernel for int8 with a scale per row, whose rows are of 16 numbers.
TEST(TorchDecoder, Int8WeightsStayAsTheyAre) {
  llm::ModelConfig config = llm::find_registered("stories15m").config();
  config.layers = 2;
  config.vocab_size = 512;
  const auto& design = llm::find_architecture(config.architecture).design;
  const auto make = [&](DType dtype) {
    llm::SyntheticWeights weights(config, llm::WeightType("int8"), Device(),
                                  {.tied = true, .positions = 64});
    return std::make_shared<const Decoder>(config, design, weights, DecoderOptions{.dtype = dtype});
  };
  const auto wide = make(kFloat32), kept = make(kBFloat16);
  EXPECT_FALSE(wide->keeps_int8());
  EXPECT_TRUE(wide->is_dequantized());
  EXPECT_TRUE(kept->keeps_int8());
  EXPECT_FALSE(kept->is_dequantized());
  EXPECT_EQ(kept->notes(), std::vector<std::string>());
  EXPECT_LT(kept->bytes(), wide->bytes() * 3 / 10);
  // More rows than its kernel is used for, and fewer.
  const Tokens tokens = llm::testing::some_tokens(40, config.vocab_size);
  Sequences expected(*wide, {.longest = 48}), found(*kept, {.longest = 48});
  for (const Tokens& step : {tokens, Tokens{7}, Tokens{8, 9}})
    EXPECT_LT(difference(found.feed({step}), expected.feed({step})), 0.05);
}

struct Closeness {
  double divergence = 0, agreement = 0;  // the mean KL divergence; rows with the same best token
};

// LibTorch's decoder in `dtype` against native's in float32, on a text that native generates.
Closeness closeness(const ModelFile& file, DType dtype, const Tokens& begin) {
  const auto native = llm::load_model(file, {.positions = kGreedyContext});
  const DecoderOptions how{.dtype = dtype, .hybrid = false, .kernels = {}};
  const auto model = decoder_of(file, how, kGreedyContext);
  const Tokens tokens = greedy(*native, begin);
  const auto feed = [&](const llm::Model& one, DType cache) {
    Sequences sequence(one,
                       {.longest = kGreedyContext, .block_size = kGreedyContext, .cache = cache});
    return log_softmax(sequence.feed({tokens}), -1);
  };
  const Tensor expected = feed(*native, kFloat32), found = feed(*model, dtype);
  return {
      .divergence = (exp(expected) * (expected - found)).sum(-1).mean().item<double>(),
      .agreement = eq(argmax(expected, -1), argmax(found, -1)).to(kFloat32).mean().item<double>()};
}

TEST(TorchDecoder, HalfPrecisionIsCloseOnATrainedModel) {
  const std::string stories = real_data("stories260K.gguf");
  if (stories.empty()) GTEST_SKIP() << "there is no stories260K.gguf";
  const ModelFile file = ModelFile::open(stories);
  for (const DType dtype : {kFloat16, kBFloat16}) {
    SCOPED_TRACE(concat(dtype));
    const Closeness found = closeness(file, dtype, {1, 403, 407, 261, 378});
    EXPECT_LT(found.divergence, dtype == kFloat16 ? 1e-4 : 1e-3);
    EXPECT_GE(found.agreement, 0.99);
  }
}

// Random weights give many tokens nearly the same logit, so bfloat16 changes the best one more
// often. A router changes its experts, and with them the whole row.
TEST(TorchDecoder, HalfPrecisionOfEveryArchitecture) {
  for (const fs::path& folder : model_folders()) {
    const ModelFile file = ModelFile::open(folder.string());
    const bool routes = llm::ModelConfig::from(file).experts > 0;
    for (const DType dtype : {kFloat16, kBFloat16}) {
      SCOPED_TRACE(concat(folder.filename().string(), " ", dtype));
      const Closeness found = closeness(file, dtype, {1, 5, 9});
      EXPECT_LT(found.divergence, dtype == kFloat16 ? 1e-4 : routes ? 1e-2 : 1e-3);
      EXPECT_GE(found.agreement, dtype == kFloat16 ? 0.985 : 0.96);
    }
  }
}

// The most bytes of addresses that the process may have, for as long as this lives.
class AddressLimit {
 public:
  explicit AddressLimit(uint64_t more) {
    getrlimit(RLIMIT_AS, &before_);
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + more;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  rlimit before_;
};

// Capped scores are written out: 1,536 tokens need 9.4 MB for each head, several times.
TEST(TorchDecoder, WithoutMemoryTheCachesOfBothLibrariesAreEmptied) {
  constexpr int64_t kLength = 1536;
  const ModelFile file = ModelFile::open(TENSORA_TESTS "/llm/goldens/models/gemma2");
  const auto model = decoder_of(file, kFloat32Alone, kLength);
  const Tokens tokens = llm::testing::some_tokens(kLength, model->config().vocab_size);
  const auto feed = [&] {
    return Sequences(*model, {.longest = kLength, .block_size = kLength}).feed({tokens});
  };
  const Tensor expected = feed();
  const size_t notes = model->notes().size();
  empty_cache();
  malloc_trim(0);
  std::vector<Tensor> hoard;
  for (int i = 0; i < 8; ++i) hoard.push_back(empty({int64_t{1} << 25}));  // 128 MiB each
  hoard.clear();
  EXPECT_GE(memory_stats().reserved - memory_stats().allocated, uint64_t{1} << 30);
  {
    const AddressLimit limit(uint64_t{24} << 20);
    EXPECT_EQ(difference(feed(), expected), 0);
  }
  ASSERT_EQ(model->notes().size(), notes + 1);
  EXPECT_TRUE(contains(model->notes().back(), "1 step ran out of memory"));
  const AddressLimit limit(uint64_t{1} << 20);
  const std::string error = error_of(feed);
  EXPECT_TRUE(contains(error, "memory")) << error;
}

}  // namespace
}  // namespace tensora::torch
