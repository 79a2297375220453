// The backends of frameworks: the native one, and one that is added from outside, step by step as
// docs/add-a-framework.md shows it.
#include "../helpers.h"
#include "../train/temporary_folder.h"
#include "tensora/llm/backends/backend_manager.h"
#include "tensora/llm/backends/native_backend.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;

/// A framework of somebody else: here it borrows the native one and may spoil the answer.
class ForeignBackend final : public FrameworkBackend {
 public:
  explicit ForeignBackend(bool lies) : lies_(lies) {}

  std::string name() const override { return "foreign"; }
  bool uses_gpu() const override { return false; }
  void load_model(const std::string& path, const BackendOptions& options) override {
    inner_.load_model(path, options);
    ++loaded;
  }
  void load_tokenizer(const std::string& path) override { inner_.load_tokenizer(path); }
  Completion generate(const Request& request,
                      const std::function<void(const Piece&)>& on_piece) override {
    Completion answer = inner_.generate(request, on_piece);
    if (lies_) answer.logprobs.back().logprob -= 0.2f;
    return answer;
  }
  BackendMemory memory_usage() const override { return inner_.memory_usage(); }
  void cleanup() noexcept override {
    inner_.cleanup();
    ++cleaned;
  }

  static inline int loaded = 0, cleaned = 0;

 private:
  NativeBackend inner_{Device()};
  bool lies_;
};

BackendEntry foreign(bool lies, bool uses_gpu = false) {
  return {.name = "foreign", .uses_gpu = uses_gpu, .make = [lies] {
            return std::make_unique<ForeignBackend>(lies);
          }};
}

TEST(Backend, TheNativeOnePassesItsSelfTest) {
  NativeBackend backend{Device()};
  self_test(backend);
  EXPECT_EQ(backend.name(), "native-cpu");
  // All is returned afterwards.
  EXPECT_EQ(backend.memory_usage().model_bytes, 0);
  EXPECT_EQ(backend.memory_usage().cache_bytes, 0);
}

TEST(Backend, OneFromOutsideIsChosenByItsName) {
  BackendManager manager;
  manager.add(foreign(false));
  std::vector<std::string> log;
  const auto backend =
      manager.choose({.preference = {"foreign", "native-cpu"},
                      .log = [&](const std::string& line) { log.push_back(line); }});
  EXPECT_EQ(backend->name(), "foreign");
  EXPECT_EQ(log, (std::vector<std::string>{"foreign is used"}));
  EXPECT_TRUE(contains(error_of([&] { manager.add(foreign(false)); }), "already"));
}

TEST(Backend, AWrongAnswerDisqualifiesAndTheNextIsTried) {
  BackendManager manager;
  manager.add(foreign(true));
  std::string log;
  const auto backend =
      manager.choose({.preference = {"foreign", "native-cpu"},
                      .log = [&](const std::string& line) { log += line + "\n"; }});
  EXPECT_EQ(backend->name(), "native-cpu");
  EXPECT_TRUE(contains(log, "foreign is not used: self_test: foreign gave log-probability")) << log;
  EXPECT_TRUE(contains(log, "native-cpu is used"));
  EXPECT_EQ(manager.choose({.preference = {"foreign"}, .self_test = false})->name(), "foreign");
}

TEST(Backend, WhereAGpuIsRequiredNothingElseWillDo) {
  BackendManager manager;
  manager.add(foreign(true, true));
  const std::string error = error_of([&] {
    manager.choose({.preference = {"foreign", "native-cpu"}, .require_gpu = true});
  });
  EXPECT_TRUE(contains(error, "none can be used")) << error;
  EXPECT_TRUE(contains(error, "native-cpu: it uses no GPU, and one is required")) << error;
  EXPECT_TRUE(contains(error, "foreign: self_test")) << error;
}

TEST(Backend, UnknownNamesAreErrorsThatListTheKnown) {
  EXPECT_TRUE(contains(error_of([] { BackendManager().choose({.preference = {"magic"}}); }),
                       "expected one of native-cuda, native-cpu, got 'magic'"));
}

TEST(Backend, CleansUpAfterAnError) {
  ForeignBackend backend(false);
  const int before = ForeignBackend::cleaned;
  EXPECT_THROW(
      {
        const CleanupScope scope(backend);
        backend.load_model("/nowhere/model.gguf", {});
      },
      Error);
  EXPECT_EQ(ForeignBackend::cleaned, before + 1);
  backend.cleanup();
  EXPECT_TRUE(contains(error_of([&] { backend.generate({.tokens = {1}}, nullptr); }),
                       "no model is loaded"));
}

// docs/add-a-framework.md shows parts of this file, so what it says is compiled and run.
TEST(Backend, ThePageShowsThisFile) {
  const std::string root = TENSORA_TESTS "/../";
  const std::string page = testing::read_text(root + "docs/add-a-framework.md");
  const std::string fence = "```", begin = fence + "cpp\n// file: ";
  int shown = 0;
  for (size_t at = page.find(begin); at != page.npos; at = page.find(begin, at + 1)) {
    const size_t line = page.find('\n', at + begin.size());
    const std::string file = page.substr(at + begin.size(), line - at - begin.size());
    const std::string part = page.substr(line + 1, page.find(fence, line) - line - 1);
    EXPECT_TRUE(contains(testing::read_text(root + file), part)) << file << " lacks\n" << part;
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
