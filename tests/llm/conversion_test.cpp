// Models written in the other format, quantized, and planned for.

#include "tensora/llm/gguf/gguf_export.h"
#include "tensora/llm/hugging_face/folder_export.h"
#include "tensora/llm/memory_plan.h"
#include "tensora/llm/model_file.h"

#include <cstdlib>

#include "../io/files.h"
#include "../real_data.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using testing::identical;
using testing::TemporaryFolder;
using testing::write_file;

// A model of 256-wide rows, as GGUF has it.
void write_model(const std::string& path, const std::string& architecture = "llama") {
  manual_seed(0);
  Metadata metadata;
  metadata.set("general.architecture", architecture);
  const auto set = [&](const char* key, auto value) {
    metadata.set(concat(architecture, ".", key), value);
  };
  set("context_length", 512);
  set("embedding_length", 256);
  set("block_count", 2);
  set("feed_forward_length", 512);
  set("attention.head_count", 4);
  set("attention.head_count_kv", 2);
  set("attention.layer_norm_rms_epsilon", 1e-5);
  set("rope.freq_base", 500000.0);
  StateDict tensors = {{"token_embd.weight", randn({64, 256})},
                       {"output_norm.weight", rand({256})}};
  for (int i : {0, 1}) {
    const std::string layer = concat("blk.", i, ".");
    tensors.insert(layer + "attn_norm.weight", rand({256}));
    tensors.insert(layer + "attn_q.weight", randn({256, 256}));
    tensors.insert(layer + "attn_k.weight", randn({128, 256}));
    tensors.insert(layer + "attn_v.weight", randn({128, 256}));
    tensors.insert(layer + "attn_output.weight", randn({256, 256}));
    tensors.insert(layer + "ffn_norm.weight", rand({256}));
    tensors.insert(layer + "ffn_gate.weight", randn({512, 256}));
    tensors.insert(layer + "ffn_up.weight", randn({512, 256}));
    tensors.insert(layer + "ffn_down.weight", randn({256, 512}));
    if (architecture == "qwen2") {
      tensors.insert(layer + "attn_q.bias", randn({256}));
      tensors.insert(layer + "attn_k.bias", randn({128}));
      tensors.insert(layer + "attn_v.bias", randn({128}));
    }
    if (architecture == "gemma2") {
      tensors.insert(layer + "post_attention_norm.weight", rand({256}));
      tensors.insert(layer + "post_ffw_norm.weight", rand({256}));
    }
  }
  write_gguf(path, metadata, tensors);
}

void expect_same(const ModelFile& a, const ModelFile& b, double tolerance = 0) {
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (const std::string& name : a.names()) {
    if (tolerance == 0) {
      EXPECT_TRUE(identical(a.tensor(name), b.tensor(name))) << name;
    } else {
      EXPECT_TRUE(allclose(a.tensor(name), b.tensor(name), tolerance, tolerance)) << name;
    }
  }
}

TEST(Conversion, there_and_back_is_the_same) {
  for (const char* architecture : {"llama", "qwen2", "qwen3", "gemma2"}) {
    SCOPED_TRACE(architecture);
    const TemporaryFolder folder;
    write_model(folder / "a.gguf", architecture);
    const ModelFile first = ModelFile::open(folder / "a.gguf");
    export_folder(first, folder / "hf", {.shard_bytes = 1 << 20});
    EXPECT_TRUE(std::filesystem::exists(folder / "hf/model.safetensors.index.json"));
    const ModelFile between = ModelFile::open(folder / "hf");
    EXPECT_EQ(between.architecture(), architecture);
    EXPECT_TRUE(between.rope_in_halves());
    export_gguf(between, folder / "b.gguf");
    // Subtracting and adding gemma's 1 rounds.
    expect_same(first, ModelFile::open(folder / "b.gguf"),
                contains(architecture, "gemma") ? 1e-6 : 0);
    for (const char* key : {"context_length", "embedding_length", "block_count",
                            "attention.head_count", "attention.head_count_kv"})
      EXPECT_EQ(between.metadata().get<int64_t>(concat(architecture, ".", key)),
                first.metadata().get<int64_t>(concat(architecture, ".", key)));
    EXPECT_EQ(
        between.metadata().get<double>(concat(architecture, ".attention.layer_norm_rms_epsilon")),
        1e-5);
  }
}

TEST(Conversion, rows_of_q_and_k_change_their_order) {
  // One head of four: 0 goes with 2 and 1 with 3, or neighbours with one another.
  EXPECT_EQ(to_vector<double>(interleave_halves(arange(4.0), 1)),
            (std::vector<double>{0, 2, 1, 3}));
  EXPECT_EQ(to_vector<double>(separate_halves(arange(4.0), 1)), (std::vector<double>{0, 2, 1, 3}));
  EXPECT_EQ(to_vector<double>(interleave_halves(arange(12.0), 2)),
            (std::vector<double>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
  const Tensor rows = rand({24, 5});
  EXPECT_TRUE(identical(separate_halves(interleave_halves(rows, 2), 2), rows));
  EXPECT_TRUE(
      contains(error_of([&] { interleave_halves(rows, 5); }), "24 rows cannot have 5 heads"));
  const TemporaryFolder folder;
  write_model(folder / "a.gguf");
  const ModelFile file = ModelFile::open(folder / "a.gguf");
  export_folder(file, folder / "hf");
  const StateDict tensors = io::load_safetensors(folder / "hf/model.safetensors");
  EXPECT_TRUE(identical(tensors["model.layers.1.self_attn.k_proj.weight"],
                        separate_halves(file.tensor("blk.1.attn_k.weight"), 2)));
}

TEST(Conversion, quantizes_what_a_mix_says) {
  const TemporaryFolder folder;
  write_model(folder / "a.gguf");
  const ModelFile file = ModelFile::open(folder / "a.gguf");
  uint64_t last = 0;
  export_gguf(file, folder / "q.gguf",
              {.type = "q4_k_m", .progress = [&](uint64_t done, uint64_t total) {
                 EXPECT_GT(done, last);
                 EXPECT_LE(done, total);
                 last = done;
               }});
  const ModelFile small = ModelFile::open(folder / "q.gguf");
  EXPECT_EQ(small.info("token_embd.weight").dtype, kQ6_K);  // makes the logits
  EXPECT_EQ(small.info("blk.0.attn_q.weight").dtype, kQ4_K);
  EXPECT_EQ(small.info("blk.0.attn_norm.weight").dtype, kFloat32);
  EXPECT_EQ(small.metadata().get<int64_t>("general.file_type"), 15);
  EXPECT_EQ(small.bytes(), last);
  EXPECT_TRUE(allclose(dequantize(small.tensor("blk.0.attn_q.weight")),
                       file.tensor("blk.0.attn_q.weight"), 0, 0.5));
  EXPECT_EQ(plan_gguf_export(small, {.type = "q8_0"}).requantized, 15);
  EXPECT_TRUE(contains(error_of([&] { plan_gguf_export(file, {.type = "int8"}); }),
                       "while a model is loaded"));
  EXPECT_TRUE(
      contains(error_of([&] { plan_gguf_export(file, {.type = "q9"}); }), "expected one of"));
  // A folder has no quantized weights.
  export_folder(small, folder / "hf");
  EXPECT_EQ(ModelFile::open(folder / "hf").info("blk.0.attn_q.weight").dtype, kFloat16);
}

TEST(Conversion, planning_adds_up) {
  const TemporaryFolder folder;
  write_model(folder / "a.gguf");
  const ModelFile file = ModelFile::open(folder / "a.gguf");
  const MemoryPlan roomy = plan_memory(file, {.memory = uint64_t{1} << 40});
  EXPECT_TRUE(roomy.fits());
  EXPECT_EQ(roomy.weights, file.bytes());
  EXPECT_EQ(roomy.cache_bytes_per_token, 2u * 2 * 2 * 64 * 2);
  EXPECT_EQ(roomy.cache, 512 * roomy.cache_bytes_per_token);
  EXPECT_EQ(roomy.largest_context, 512);
  // Too little for the whole context: the largest that fits does fit, and a block more does not.
  const uint64_t memory = roomy.needed() - roomy.cache / 3;
  const MemoryPlan tight = plan_memory(file, {.memory = memory});
  EXPECT_FALSE(tight.fits());
  ASSERT_FALSE(tight.changes.empty());
  EXPECT_EQ(tight.changes[0].option, "--cache-type q8_0");
  EXPECT_TRUE(plan_memory(file, {.context = tight.largest_context, .memory = memory}).fits());
  EXPECT_FALSE(plan_memory(file, {.context = tight.largest_context + 32, .memory = memory}).fits());
  // Far too little: fewer bits would do, but nothing does in a kilobyte.
  const MemoryPlan half = plan_memory(file, {.memory = roomy.needed() - file.bytes() / 2});
  EXPECT_TRUE(std::any_of(half.changes.begin(), half.changes.end(),
                          [](const auto& change) { return change.option == "--quantize q8_0"; }));
  EXPECT_TRUE(plan_memory(file, {.memory = 1024}).changes.empty());
  EXPECT_TRUE(contains(error_of([&] { plan_memory(file, {.sequences = 0}); }), "must be positive"));
}

TEST(Conversion, other_tools_read_what_is_written) {
  if (std::system("python3 -c 'import gguf, numpy' >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "python3 has no gguf";
  const TemporaryFolder folder;
  StateDict tensors;
  Metadata metadata;
  metadata.set("general.architecture", "llama");
  metadata.set("a.list", std::vector<int64_t>{1, 2, 3});
  metadata.set("a.text", "größe");
  for (const DTypeInfo& info : dtype_info_table) {
    if (info.category != Category::quantized || info.dtype == kNF4) continue;
    const Tensor q = quantize(randn({3, 512}), info.dtype);
    tensors.insert(std::string(info.name), q);
    tensors.insert(concat(info.name, ".numbers"), dequantize(q));
  }
  write_gguf(folder / "x.gguf", metadata, tensors);
  write_file(folder / "check.py", R"(
import sys, gguf, numpy
reader = gguf.GGUFReader(sys.argv[1])
assert reader.get_field("a.list").contents() == [1, 2, 3]
assert reader.get_field("a.text").contents() == "größe"
found = {t.name: gguf.dequantize(t.data, t.tensor_type) for t in reader.tensors}
names = [name for name in found if not name.endswith(".numbers")]
assert len(names) == 13, names
for name in names:
    numpy.testing.assert_allclose(found[name], found[name + ".numbers"], rtol=1e-6, atol=1e-7, err_msg=name)
)");
  EXPECT_EQ(
      std::system(concat("python3 '", folder / "check.py", "' '", folder / "x.gguf", "'").c_str()),
      0);
}

TEST(Conversion, the_tokenizer_goes_along) {
  const std::string path = testing::real_data("stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "../shared/data/stories260K.gguf is not there";
  const TemporaryFolder folder;
  const ModelFile file = ModelFile::open(path);
  export_folder(file, folder / "hf");
  export_gguf(ModelFile::open(folder / "hf"), folder / "b.gguf");
  const ModelFile back = ModelFile::open(folder / "b.gguf");
  expect_same(file, back);
  using Texts = std::vector<std::string>;
  using Integers = std::vector<int64_t>;
  EXPECT_EQ(back.metadata().get<Texts>("tokenizer.ggml.tokens"),
            file.metadata().get<Texts>("tokenizer.ggml.tokens"));
  EXPECT_EQ(back.metadata().get<Integers>("tokenizer.ggml.token_type"),
            file.metadata().get<Integers>("tokenizer.ggml.token_type"));
  for (const char* key : {"bos_token_id", "eos_token_id", "unknown_token_id"})
    EXPECT_EQ(back.metadata().get<int64_t>(concat("tokenizer.ggml.", key)),
              file.metadata().get<int64_t>(concat("tokenizer.ggml.", key)));
}

}  // namespace
}  // namespace tensora::llm
