// Programs that are killed, interrupted or run out of disk: no file under its name is half written,
// and nothing crashes.
#ifdef TENSORA_CLI
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "../helpers.h"
#include "../program.h"
#include "../real_data.h"
#include "tensora/llm/gguf/gguf_writer.h"
#include "tensora/llm/model_file.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::Program;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

// A model of a few megabytes, so that there is a time at which it is half written.
std::string write_model(const TemporaryFolder& folder) {
  Metadata metadata;
  metadata.set("general.architecture", "llama");
  metadata.set("llama.context_length", 64);
  metadata.set("llama.embedding_length", 256);
  metadata.set("llama.block_count", 1);
  metadata.set("llama.feed_forward_length", 512);
  metadata.set("llama.attention.head_count", 4);
  metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5);
  const std::string path = folder.path("a.gguf");
  write_gguf(path, metadata,
             StateDict{{"token_embd.weight", randn({8192, 256})},
                       {"output_norm.weight", rand({256})},
                       {"blk.0.attn_norm.weight", rand({256})},
                       {"blk.0.attn_q.weight", randn({256, 256})},
                       {"blk.0.attn_k.weight", randn({256, 256})},
                       {"blk.0.attn_v.weight", randn({256, 256})},
                       {"blk.0.attn_output.weight", randn({256, 256})},
                       {"blk.0.ffn_norm.weight", rand({256})},
                       {"blk.0.ffn_gate.weight", randn({512, 256})},
                       {"blk.0.ffn_up.weight", randn({512, 256})},
                       {"blk.0.ffn_down.weight", randn({256, 512})}});
  return path;
}

// Ends the program at moments spread over the time that it takes; `is_whole` tells whether what is
// there is all there.
void kill_at_any_time(const TemporaryFolder& folder, const Words& words, const std::string& result,
                      const std::function<bool()>& is_whole) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  EXPECT_EQ(Program(folder, words).wait(), 0);
  const auto whole = Clock::now() - began;
  EXPECT_TRUE(is_whole());
  constexpr int kMoments = 12;
  for (int i = 0; i < kMoments; ++i) {
    fs::remove_all(result);
    const Program program(folder, words);
    std::this_thread::sleep_for(whole * i / kMoments);
    program.send(SIGKILL);
    program.wait();
    EXPECT_TRUE(!fs::exists(result) || is_whole()) << i;
  }
  fs::remove_all(result);
  EXPECT_EQ(Program(folder, words).wait(), 0);
  EXPECT_TRUE(is_whole());
}

TEST(Interrupted, killed_writers_leave_no_half_of_a_file) {
  const TemporaryFolder folder;
  const std::string model = write_model(folder), out = folder.path("out.gguf"),
                    hf = folder.path("hf");
  const auto opens = [](const std::string& path) {
    try {
      return ModelFile::open(path).tensors().size() == 11;
    } catch (const Error&) {
      return false;
    }
  };
  kill_at_any_time(folder, {"quantize", model, "q4_k", "-o", out, "-q", "-t", "1"}, out,
                   [&] { return opens(out); });
  for (const auto& entry : fs::directory_iterator(folder.path("")))
    EXPECT_FALSE(contains(entry.path().string(), ".tmp-")) << entry.path();
  // A folder is a model once it has its config.json, which comes last.
  kill_at_any_time(folder, {"convert", model, hf, "-q"}, hf,
                   [&] { return opens(hf) || !fs::exists(hf + "/config.json"); });
  EXPECT_TRUE(opens(hf));
}

TEST(Interrupted, a_full_disk_is_an_error) {
  const TemporaryFolder folder;
  const std::string model = write_model(folder), out = folder.path("out.gguf"),
                    hf = folder.path("hf");
  for (const Words& words : {Words{"quantize", model, "q8_0", "-o", out},
                             Words{"convert", model, hf}, Words{"convert", model, out}}) {
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{.rlim_cur = 100000, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);  // the program inherits it
    const Program program(folder, words);
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(program.wait(), 1) << words[0];
    EXPECT_TRUE(contains(program.error(), "File too large")) << program.error();
    EXPECT_FALSE(fs::exists(out)) << words[0];
    EXPECT_FALSE(fs::exists(hf)) << words[0];  // no empty folder either
    for (const auto& entry : fs::recursive_directory_iterator(folder.path("")))
      EXPECT_FALSE(contains(entry.path().string(), ".tmp-")) << entry.path();
  }
}

TEST(Interrupted, a_signal_removes_what_is_half_written) {
  const TemporaryFolder folder;
  const std::string model = write_model(folder), out = folder.path("out.gguf"),
                    hf = folder.path("new/hf");
  int interrupted = 0;
  for (int i = 0; i < 30; ++i) {
    const int signal = i % 3 == 0 ? SIGINT : i % 3 == 1 ? SIGTERM : SIGHUP;
    const Program program(folder, i % 2 ? Words{"quantize", model, "q4_k", "-o", out, "-t", "1"}
                                        : Words{"convert", model, hf, "--type", "f32"});
    std::this_thread::sleep_for(std::chrono::milliseconds(8 + 2 * i));
    program.send(signal);
    const int code = program.wait();
    EXPECT_TRUE(code == 0 || code == 128 + signal) << code << " " << program.error();
    interrupted += code != 0;
    // One that came when all was written changes nothing.
    EXPECT_TRUE(code != 0 || fs::exists(out) || fs::exists(hf)) << i;
    EXPECT_EQ(fs::exists(folder.path("new")), fs::exists(hf + "/config.json")) << i;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path("")))
      EXPECT_FALSE(contains(entry.path().string(), ".tmp-")) << i << " " << entry.path();
    fs::remove_all(folder.path("new"));
    fs::remove(out);
  }
  EXPECT_GT(interrupted, 0);
}

TEST(Interrupted, ctrl_c_at_any_time) {
  const std::string model = testing::real_data("stories260K.gguf");
  if (model.empty()) GTEST_SKIP() << "../shared/data/stories260K.gguf is not there";
  const TemporaryFolder folder;
  for (int i = 0; i < 24; ++i) {
    const Words words = i % 2 ? Words{"run", model, "-n", "400", "-q", "-t", "1"}
                              : Words{"chat", model, "-n", "60", "-q", "-t", "1"};
    const Program program(folder, words, "Once\nLily\n/bye\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * i));
    program.send(SIGINT);
    // Before it can tell an answer from itself, the program ends by the signal.
    const int code = program.wait();
    EXPECT_TRUE(code == 0 || code == 130) << i << ": " << code << " " << program.error();
  }
}

}  // namespace
}  // namespace tensora::llm
#endif
