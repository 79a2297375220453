// The frameworks libtorch and hybrid as a user has them: libraries that are opened when they are
// asked for. This program is not linked with LibTorch.
#include <dlfcn.h>
#include <malloc.h>

#include <fstream>

#include "../helpers.h"
#include "../real_data.h"
#include "../setting.h"
#include "../temporary_folder.h"
#include "tensora/llm/backends/backend_manager.h"
#include "tensora/llm/memory_tracker.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

using tensora::testing::contains;
using tensora::testing::error_of;
using tensora::testing::real_data;
using tensora::testing::Setting;

std::unique_ptr<FrameworkBackend> make(const std::string& name) {
  static BackendManager manager;
  return manager.choose({.frameworks = {name}, .device = Device()});
}

// Before the library is opened for the first time.
TEST(TorchPlugin, AnotherVersionIsRefused) {
  const tensora::testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "lib");
  std::ofstream(folder / "lib/libtorch_cpu.so") << "x";
  std::ofstream(folder / "version.py") << "__version__ = '1.13.1+cpu'\n";
  const Setting setting("TENSORA_TORCH_DIR", folder.path());
  BackendManager manager;
  const std::string error = error_of([&] { manager.choose({.frameworks = {"libtorch"}}); });
  EXPECT_TRUE(contains(error, "was compiled for PyTorch ")) << error;
  EXPECT_TRUE(contains(error, "has 1.13.1+cpu")) << error;
}

TEST(TorchPlugin, WithoutTorchTheNextFrameworkIsUsed) {
  const tensora::testing::TemporaryFolder folder;
  const Setting setting("TENSORA_TORCH_DIR", folder.path());
  BackendManager manager;
  std::string log;
  const auto backend =
      manager.choose({.frameworks = {"hybrid", "libtorch", "native"},
                      .device = Device(),
                      .log = [&](const std::string& line) { log += line + "\n"; }});
  EXPECT_EQ(backend->name(), "native");
  EXPECT_TRUE(contains(log, "hybrid is not used: LibTorch: there is none in ")) << log;
  EXPECT_TRUE(contains(log, "libtorch is not used: ")) << log;
}

// Both pass the self-test, which `choose` runs.
TEST(TorchPlugin, BothFrameworksAreFoundByName) {
  for (const char* name : {"libtorch", "hybrid"}) {
    const auto backend = make(name);
    EXPECT_EQ(backend->name(), name);
    EXPECT_FALSE(backend->report().version.empty());
  }
}

// A BLAS that Tensora has opened must not take the place of LibTorch's own.
TEST(TorchPlugin, LibTorchMultipliesByItsOwnBlas) {
  matmul(ones({64, 64}), ones({64, 64}));
  const auto backend = make("libtorch");
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "sgemm_"), nullptr);
  void* const torch = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(torch, nullptr);
  void* const product = dlsym(torch, "sgemm_");
  ASSERT_NE(product, nullptr);
  Dl_info info;
  ASSERT_NE(dladdr(product, &info), 0);
  EXPECT_TRUE(contains(info.dli_fname, "libtorch_cpu")) << info.dli_fname;
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cudaMalloc"), nullptr);
  dlclose(torch);
}

class Stories : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path = real_data("stories260K.gguf");
    if (path.empty()) GTEST_SKIP() << "there is no stories260K.gguf";
  }
  std::string path;
};

TEST_P(Stories, TwoHundredGreedyTokensAreNatives) {
  const Request request{
      .prompt = "Once upon a time", .sampling = {.temperature = 0}, .max_tokens = 200};
  std::vector<std::vector<int32_t>> answers;
  for (const std::string name : {"native", GetParam()}) {
    const auto backend = make(name);
    backend->load_model(path, {.engine = {.context = 256, .cache_dtype = kFloat32}});
    backend->load_tokenizer(path);
    answers.push_back(backend->generate(request).tokens);
  }
  EXPECT_EQ(answers[0].size(), 200u);
  EXPECT_EQ(answers[1], answers[0]);
}

TEST_P(Stories, ManyRequestsAtOnce) {
  const auto backend = make(GetParam());
  backend->load_model(path, {.engine = {.context = 128, .max_sequences = 3}});
  backend->load_tokenizer(path);
  std::vector<Generation> running;
  for (int i = 0; i < 7; ++i)
    running.push_back(backend->submit({.prompt = i % 2 == 0 ? "Once upon a time" : "Lily",
                                       .sampling = {.temperature = 0},
                                       .max_tokens = 20 + i}));
  std::vector<Completion> answers;
  for (Generation& each : running) answers.push_back(each.wait());
  for (size_t i = 2; i < answers.size(); ++i)
    EXPECT_TRUE(answers[i].text.starts_with(answers[i % 2].text)) << answers[i].text;
}

// Decode steps of sequences that have one length, whose caches lie side by side, and of others.
TEST_P(Stories, SequencesAtOnceGiveNativesLogits) {
  using Session = SequenceSession;
  constexpr size_t kCount = 3;
  std::vector<Tensor> found[2];
  for (const std::string name : {"native", GetParam()}) {
    const auto backend = make(name);
    backend->load_model(path, {.engine = {.context = 64, .cache_dtype = kFloat32}});
    const auto session =
        backend->open_sequences({.sequences = kCount, .context = 32, .cache_dtype = kFloat32});
    const auto step = [&](const std::vector<std::vector<int32_t>>& texts) {
      std::vector<Session::Part> parts;
      for (size_t i = 0; i < texts.size(); ++i)
        parts.push_back({static_cast<int64_t>(i), texts[i]});
      found[name == "native" ? 0 : 1].push_back(
          session->forward(parts, Session::Rows::last).clone());
    };
    step({{1, 403, 407}, {1, 261, 378}, {1, 417, 268}});
    for (int32_t i = 0; i < 4; ++i) step({{300 + i}, {310 + i}, {320 + i}});
    session->truncate(1, 2);
    for (int32_t i = 0; i < 2; ++i) step({{330 + i}, {340 + i}, {350 + i}});
  }
  for (size_t i = 0; i < found[0].size(); ++i) {
    const double largest = found[0][i].abs().max().item<double>();
    const double worst = (found[1][i] - found[0][i]).abs().max().item<double>();
    EXPECT_LT(worst, 1e-4 * largest) << "step " << i;
  }
}

TEST_P(Stories, ReportsHowItRuns) {
  const auto backend = make(GetParam());
  backend->load_model(path, {.level = "eager"});
  const ExecutionReport report = backend->report();
  EXPECT_EQ(report.level, "eager");
  EXPECT_EQ(report.precision, backend->name() == "libtorch" ? "float32" : "");
  EXPECT_FALSE(report.dequantized);
  EXPECT_TRUE(contains(error_of([&] { backend->load_model(path, {.level = "fastest"}); }),
                       "expected the optimization level eager"));
  EXPECT_TRUE(contains(error_of([&] {
                         backend->load_model(path, {.settings = {{"colour", "red"}}});
                       }),
                       "got 'colour'"));
  EXPECT_TRUE(contains(error_of([&] { backend->load_adapter("x"); }), "no LoRA adapters"));
}

// The weights alone are 1.1 MB. What malloc has given out is counted, and what is mapped, such as
// the cache, in the resident set.
TEST_P(Stories, AHundredLoadsLeaveNothingBehind) {
  const auto backend = make(GetParam());
  const auto cycle = [&] {
    backend->load_model(path, {.engine = {.context = 64}});
    const Completion answer = backend->generate({.tokens = {1, 403, 407}, .max_tokens = 2});
    ASSERT_EQ(answer.tokens.size(), 2u);
    backend->cleanup();
  };
  for (int i = 0; i < 10; ++i) cycle();
  malloc_trim(0);
  const uint64_t before = memory_usage(Device()).used;
  const size_t bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
  for (int i = 0; i < 100; ++i) cycle();
  malloc_trim(0);
  EXPECT_LT(mallinfo2().uordblks + mallinfo2().hblkhd, bytes + (1 << 20));
  EXPECT_LT(memory_usage(Device()).used, before + (16 << 20));
}

INSTANTIATE_TEST_SUITE_P(Torch, Stories, ::testing::Values("libtorch", "hybrid"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tensora::llm
