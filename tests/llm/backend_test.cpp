// The backends of frameworks: the native one, frameworks that are added from outside, and what all
// of them promise to front ends.
#include <cstdlib>
#include <thread>

#include "../helpers.h"
#include "../real_data.h"
#include "../train/temporary_folder.h"
#include "tensora/jit/kernel_store.h"
#include "tensora/llm/backends/backend_manager.h"
#include "tensora/llm/backends/native_backend.h"
#include "tensora/llm/generation_state.h"
#include "toy_model.h"

namespace tensora::llm {
namespace {

using tensora::testing::contains;
using tensora::testing::error_of;
using tensora::testing::read_text;
using tensora::testing::real_data;
using testing::ToyModel;
using testing::ToyTokenizer;

/// The native framework under another name, which may spoil the answer.
class SpoiledBackend final : public EngineBackend {
 public:
  explicit SpoiledBackend(bool lies) : EngineBackend(Device()), lies_(lies) {}
  std::string name() const override { return "foreign"; }
  Completion generate(Request request, const std::function<void(const Piece&)>& on_piece) override {
    Completion answer = EngineBackend::generate(std::move(request), on_piece);
    if (lies_) answer.logprobs.back().logprob -= 0.2f;
    return answer;
  }

 protected:
  std::shared_ptr<const Model> make_model(const ModelFile& file,
                                          const LoadOptions& options) const override {
    return llm::load_model(file, options);
  }

 private:
  bool lies_;
};

BackendEntry foreign(bool lies) {
  return {.name = "foreign", .devices = {"cpu"}, .make = [lies](Device) {
            return std::make_unique<SpoiledBackend>(lies);
          }};
}

/// The engine over a toy, to look at the interface itself.
class ToyBackend final : public EngineBackend {
 public:
  explicit ToyBackend(const EngineOptions& options = {}) : EngineBackend(Device()) {
    auto model = std::make_shared<ToyModel>();
    model->delay = std::chrono::milliseconds(1);
    BackendOptions how{.engine = options};
    how.engine.cache_dtype = kFloat32;
    use_model(model, {.name = "toy"}, how);
  }
  std::string name() const override { return "toy"; }

 protected:
  std::shared_ptr<const Model> make_model(const ModelFile&, const LoadOptions&) const override {
    fail("toy: it has no files");
  }
};

/// A framework with a runtime of its own: nothing of Tensora's engine is in it. It repeats the
/// prompt, a token every millisecond.
class EchoBackend final : public FrameworkBackend {
 public:
  ~EchoBackend() override { cleanup(); }
  std::string name() const override { return "echo"; }
  Device device() const override { return {}; }
  void load_model(const std::string&, const BackendOptions&) override { is_loaded_ = true; }
  void load_tokenizer(const std::string&) override {
    tokenizer_ = std::make_shared<ToyTokenizer>();
  }
  Generation submit(Request request) override {
    check(is_loaded_, "echo: no model is loaded");
    auto state = std::make_shared<Generation::State>();
    threads_.emplace_back([this, state, tokens = tokens_of(request)] {
      Completion answer;
      for (const int32_t token : tokens) {
        if (state->cancelled || !is_loaded_) answer.reason = FinishReason::cancelled;
        if (answer.reason == FinishReason::cancelled) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::string text = tokenizer_ ? tokenizer_->bytes_of(token, {}) : "";
        answer.text += text;
        answer.tokens.push_back(token);
        state->add(text, {.token = token, .logprob = 0});
      }
      state->finish("", answer);
    });
    return Generation(std::move(state));
  }
  ModelInfo model_info() const override { return {.summary = {.name = "echo"}, .config = {}}; }
  int64_t context() override { return 1000; }
  TokenizerPtr tokenizer() const override { return tokenizer_; }
  const ChatTemplate* chat_template() const override { return nullptr; }
  EngineStats stats() const override { return {}; }
  BackendMemory memory_usage() const override { return {}; }
  void cleanup() noexcept override {
    is_loaded_ = false;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::atomic<bool> is_loaded_ = false;
  TokenizerPtr tokenizer_;
  std::vector<std::thread> threads_;
};

TEST(Backend, ReportsTheKernelCache) {
  const ToyBackend backend;
  jit::KernelStatistics& counted = jit::kernel_statistics();
  const KernelCacheStats before = backend.report().kernels;
  counted.memory_hits += 2;
  counted.disk_hits += 1;
  counted.misses += 1;
  counted.compile_microseconds += 500000;
  const KernelCacheStats found = backend.report().kernels;
  EXPECT_EQ(found.hits, before.hits + 3);
  EXPECT_EQ(found.misses, before.misses + 1);
  EXPECT_DOUBLE_EQ(found.compile_seconds, before.compile_seconds + 0.5);
  EXPECT_GT(found.hit_rate(), 0);
  EXPECT_EQ(found.entries, std::ssize(jit::kernel_store().list()));
}

TEST(Backend, TheNativeOnePassesItsSelfTest) {
  NativeBackend backend{Device()};
  self_test(backend);
  EXPECT_EQ(backend.name(), "native");
  EXPECT_EQ(backend.label(), "native-cpu");
  // All is returned afterwards.
  EXPECT_EQ(backend.memory_usage().model_bytes, 0);
  EXPECT_EQ(backend.memory_usage().cache_bytes, 0);
}

TEST(Backend, AdmitsManyRequestsAtOnce) {
  ToyBackend backend({.max_sequences = 4});
  std::vector<Generation> running;
  for (int32_t i = 0; i < 12; ++i)
    running.push_back(backend.submit({.tokens = {2, 3 + i}, .max_tokens = 40, .ignore_end = true}));
  EXPECT_GT(backend.stats().running + backend.stats().waiting, 1);
  int64_t streamed = 0;
  while (const auto piece = running[0].next())
    streamed += static_cast<int64_t>(piece->tokens.size());
  EXPECT_EQ(streamed, 40);
  running[11].cancel();
  EXPECT_EQ(running[11].wait().reason, FinishReason::cancelled);
  for (int32_t i = 1; i < 11; ++i)
    EXPECT_EQ(running[static_cast<size_t>(i)].wait().tokens,
              testing::continued({2, 3 + i}, 40, false));
  EXPECT_EQ(backend.stats().requests, 12);
  EXPECT_EQ(backend.stats().running + backend.stats().waiting, 0);
  EXPECT_GT(backend.memory_usage().cache_bytes, 0);
  EXPECT_EQ(backend.model_info().summary.name, "toy");
  EXPECT_EQ(backend.context(), 256);
}

TEST(Backend, CleanupEndsWhatIsRunning) {
  ToyBackend backend;
  Generation story = backend.submit({.tokens = {2}, .max_tokens = 250, .ignore_end = true});
  story.next();
  backend.cleanup();
  EXPECT_TRUE(contains(error_of([&] { story.wait(); }), "closed before the answer ended"));
  EXPECT_TRUE(contains(error_of([&] { backend.submit({.tokens = {2}}); }), "no model is loaded"));
  EXPECT_TRUE(contains(error_of([&] { backend.open_sequences({}); }), "no model is loaded"));
  EXPECT_EQ(backend.stats().running, 0);
  backend.cleanup();
}

TEST(Backend, AFrameworkMayHaveItsOwnRuntime) {
  EchoBackend backend;
  backend.load_model("anything", {});
  backend.load_tokenizer("anything");
  std::string streamed;
  const Completion answer =
      backend.generate({.prompt = "HELLO"}, [&](const Piece& piece) { streamed += piece.text; });
  EXPECT_EQ(answer.text, "HELLO");
  EXPECT_EQ(streamed, "HELLO");
  std::vector<Generation> running;
  for (int i = 0; i < 3; ++i) running.push_back(backend.submit({.prompt = std::string(200, 'A')}));
  running[0].cancel();
  EXPECT_LT(running[0].wait().text.size(), 200u);
  EXPECT_EQ(running[2].wait().text.size(), 200u);
  // What it does not offer is an error that says so.
  EXPECT_TRUE(contains(error_of([&] { backend.open_sequences({}); }), "echo: this framework"));
  EXPECT_TRUE(contains(error_of([&] { backend.load_adapter("x"); }), "no LoRA adapters"));
  EXPECT_TRUE(contains(error_of([&] { backend.load_synthetic("llama3-1b", "q8_0", {}); }),
                       "cannot make the synthetic model"));
}

TEST(BackendManager, OneFromOutsideIsChosenByItsName) {
  BackendManager manager;
  manager.add(foreign(false));
  std::vector<std::string> log;
  const auto backend =
      manager.choose({.frameworks = {"foreign", "native"},
                      .log = [&](const std::string& line) { log.push_back(line); }});
  EXPECT_EQ(backend->name(), "foreign");
  EXPECT_EQ(log, (std::vector<std::string>{"foreign-cpu is used"}));
  EXPECT_TRUE(contains(error_of([&] { manager.add(foreign(false)); }), "already"));
}

TEST(BackendManager, AWrongAnswerDisqualifiesAndTheNextIsTried) {
  BackendManager manager;
  manager.add(foreign(true));
  std::string log;
  const auto backend =
      manager.choose({.frameworks = {"foreign", "native"},
                      .device = Device(),
                      .log = [&](const std::string& line) { log += line + "\n"; }});
  EXPECT_EQ(backend->label(), "native-cpu");
  EXPECT_TRUE(contains(log, "foreign-cpu is not used: self_test: foreign-cpu gave log-probability"))
      << log;
  EXPECT_TRUE(contains(log, "native-cpu is used"));
  EXPECT_EQ(manager.choose({.frameworks = {"foreign"}, .self_test = false})->name(), "foreign");
}

TEST(BackendManager, WhatIsThrownIsAReason) {
  BackendManager manager;
  manager.add({.name = "odd",
               .devices = {"cpu"},
               .make = [](Device) -> std::unique_ptr<FrameworkBackend> { throw 42; }});
  manager.add({.name = "none", .devices = {"cpu"}, .make = [](Device) {
                 return std::unique_ptr<FrameworkBackend>();
               }});
  const std::string error = error_of([&] { manager.choose({.frameworks = {"odd", "none"}}); });
  EXPECT_TRUE(contains(error, "odd-cpu: it threw something that is no std::exception")) << error;
  EXPECT_TRUE(contains(error, "none-cpu: ")) << error;
}

TEST(BackendManager, WhereAGpuIsRequiredNothingElseWillDo) {
  BackendManager manager;
  manager.add(foreign(false));
  const std::string error =
      error_of([&] { manager.choose({.frameworks = {"foreign"}, .require_gpu = true}); });
  EXPECT_TRUE(contains(error, "none can be used")) << error;
  EXPECT_TRUE(contains(error, "foreign-cpu: it uses no GPU, and one is required")) << error;
}

TEST(BackendManager, LibrariesAreFoundByTheirNames) {
  const auto reason = [](const char* name) {
    return error_of([&] { BackendManager().choose({.frameworks = {name}}); });
  };
  EXPECT_TRUE(contains(reason("magic"),
                       "there is no framework 'magic'; built in: native; no "
                       "libtensora_framework_magic.so in /"))
      << reason("magic");
  EXPECT_TRUE(contains(reason("../evil"), "letters a to z")) << reason("../evil");
  EXPECT_TRUE(contains(reason("stale"), "was built for version -1")) << reason("stale");
  EXPECT_EQ(BackendManager().choose({.frameworks = {"magic", "plain"}})->label(), "plain-cpu");
  // Only absolute folders are searched: the working directory may be anybody's.
  setenv("TENSORA_FRAMEWORK_PATH", "/nowhere:here", 1);
  EXPECT_TRUE(contains(reason("plain"), "expected absolute folders")) << reason("plain");
  setenv("TENSORA_FRAMEWORK_PATH", "/nowhere", 1);
  EXPECT_TRUE(contains(reason("magic"), "in /nowhere and /")) << reason("magic");
  unsetenv("TENSORA_FRAMEWORK_PATH");
}

TEST(Backend, CleansUpAfterAnError) {
  NativeBackend backend{Device()};
  EXPECT_THROW(
      {
        const CleanupScope scope(backend);
        backend.load_model("/nowhere/model.gguf", {});
      },
      Error);
  EXPECT_TRUE(contains(error_of([&] { backend.generate({.tokens = {1}}, nullptr); }),
                       "no model is loaded"));
}

TEST(Backend, TellsWhatAUserShouldKnow) {
  const std::string path = real_data("stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "../shared/data/stories260K.gguf is not there";
  NativeBackend backend{Device()};
  std::vector<std::string> notes;
  backend.load_model(path, {.engine = {.context = 4096},
                            .chat_template = "{{ messages[0].content }}!{{ mood }}",
                            .note = [&](const std::string& note) { notes.push_back(note); }});
  backend.load_tokenizer(path);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(contains(notes[0], "trained for contexts of 2048 tokens"));
  EXPECT_EQ(backend.context(), 4096);
  EXPECT_EQ(backend.model_info().positions, 4096);
  // The template of the options, with variables of the request.
  const Request request{.messages = {{.role = "user", .content = "Hi"}},
                        .chat = {.variables = "{\"mood\": \" good\"}"}};
  EXPECT_EQ(backend.tokenizer()->decode(backend.tokens_of(request)), "Hi! good");
}

// docs/add-a-framework.md shows parts of the plugin, so what it says is compiled and run.
TEST(Backend, ThePageShowsThePlugin) {
  const std::string root = TENSORA_TESTS "/../";
  const std::string page = read_text(root + "docs/add-a-framework.md");
  const std::string fence = "```", begin = fence + "cpp\n// file: ";
  int shown = 0;
  for (size_t at = page.find(begin); at != page.npos; at = page.find(begin, at + 1)) {
    const size_t line = page.find('\n', at + begin.size());
    const std::string file = page.substr(at + begin.size(), line - at - begin.size());
    const std::string part = page.substr(line + 1, page.find(fence, line) - line - 1);
    EXPECT_TRUE(contains(read_text(root + file), part)) << file << " lacks\n" << part;
    ++shown;
  }
  EXPECT_EQ(shown, 4);
}

TEST(MemoryTracker, SeesWhatIsTaken) {
  MemoryTracker tracker;
  const uint64_t before = tracker.read()[0].used;
  EXPECT_GT(before, 0u);
  EXPECT_GT(tracker.read()[0].total, before);
  {
    const Tensor taken = ones({16 << 20});
    EXPECT_GT(tracker.read()[0].delta(), 32 << 20);
  }
  EXPECT_GE(tracker.read()[0].peak, before + (32 << 20));
  EXPECT_TRUE(contains(tracker.table(), "cpu"));
  EXPECT_GT(memory_usage().free, 0u);
}

}  // namespace
}  // namespace tensora::llm
