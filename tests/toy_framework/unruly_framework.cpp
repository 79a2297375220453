// A framework that is Tensora's own but for one function, which misbehaves. The environment says
// which and how: UNRULY=FUNCTION:DEED or UNRULY=FUNCTION:DEED:CALLS, after so many good calls.
// Deeds: throw, throw_number, memory, hang, crash, exit, print, fork; of forward also wrong, of
// report also level and precision.
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tensora/llm/backends/backend_manager.h"
#include "tensora/llm/backends/engine_backend.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::unruly {
namespace {

// Whether this call of `function` is the one that misbehaves, and how.
std::string deed_of(const std::string& function) {
  static std::map<std::string, int> calls;
  const char* text = std::getenv("UNRULY");
  const std::string plan = text ? text : "";
  if (plan.rfind(function + ":", 0) != 0) return {};
  const size_t begin = function.size() + 1, end = plan.find(':', begin);
  const int good = end == plan.npos ? 0 : std::atoi(plan.c_str() + end + 1);
  return calls[function]++ >= good ? plan.substr(begin, end - begin) : "";
}

// What was asked for and is left to the caller.
std::string act(const std::string& function) {
  const std::string deed = deed_of(function);
  if (deed == "throw") fail("unruly: ", function, " does not feel like it");
  if (deed == "throw_number") throw 42;
  if (deed == "memory") make_tensor({int64_t{1} << 50}, kFloat32, Device());
  if (deed == "hang")
    while (true) pause();
  if (deed == "crash") std::raise(SIGSEGV);
  if (deed == "exit") _exit(3);
  if (deed == "print") std::printf("unruly: %s talks\n", function.c_str());
  if (deed == "fork" && fork() == 0)
    while (true) pause();  // a process that nobody asked for
  return deed;
}

class Session final : public llm::SequenceSession {
 public:
  explicit Session(std::unique_ptr<SequenceSession> inner)
      : SequenceSession(inner->options()), inner_(std::move(inner)) {}
  Tensor forward(std::span<const Part> parts, Rows rows) override {
    const bool is_wrong = act("forward") == "wrong";
    Tensor logits = inner_->forward(parts, rows);
    return is_wrong ? logits * -1. : logits;
  }
  void truncate(int64_t sequence, int64_t length) override {
    act("truncate");
    inner_->truncate(sequence, length);
  }
  int64_t length(int64_t sequence) const override { return inner_->length(sequence); }
  void synchronize() override {
    act("synchronize");
    inner_->synchronize();
  }

 private:
  std::unique_ptr<SequenceSession> inner_;
};

class Backend final : public llm::EngineBackend {
 public:
  explicit Backend(Device device) : EngineBackend(device) { act("make"); }
  std::string name() const override { return "unruly"; }
  void load_model(const std::string& path, const llm::BackendOptions& options) override {
    act("load_model");
    EngineBackend::load_model(path, options);
  }
  void load_tokenizer(const std::string& path) override {
    act("load_tokenizer");
    if (path.find("tensora-self-test") == path.npos) act("load_own_tokenizer");
    EngineBackend::load_tokenizer(path);
  }
  llm::Generation submit(llm::Request request) override {
    act("submit");
    return EngineBackend::submit(std::move(request));
  }
  std::unique_ptr<llm::SequenceSession> open_sequences(const llm::SessionOptions& o) override {
    act("open_sequences");
    return std::make_unique<Session>(EngineBackend::open_sequences(o));
  }
  llm::ModelInfo model_info() const override {
    act("model_info");
    return EngineBackend::model_info();
  }
  llm::BackendMemory memory_usage() const override {
    act("memory_usage");
    return EngineBackend::memory_usage();
  }
  llm::ExecutionReport report() const override {
    const std::string deed = act("report");
    llm::ExecutionReport report = EngineBackend::report();
    if (deed == "level") report.level = "reckless";
    if (deed == "precision") report.precision = "float8";
    return report;
  }
  void cleanup() noexcept override {
    act("cleanup");
    EngineBackend::cleanup();
  }

 protected:
  std::shared_ptr<const llm::Model> make_model(const llm::ModelFile& file,
                                               const llm::LoadOptions& options) const override {
    return llm::load_model(file, options);
  }
};

[[maybe_unused]] const bool opened = (act("open"), true);

}  // namespace
}  // namespace tensora::unruly

extern "C" int tensora_framework_abi() {
  tensora::unruly::act("abi");
  return tensora::llm::kFrameworkAbi;
}

extern "C" void tensora_add_frameworks(tensora::llm::BackendManager& manager) {
  tensora::unruly::act("add");
  manager.add({.name = "unruly",
               .devices = {"cpu"},
               .make =
                   [](tensora::Device device) {
                     return std::make_unique<tensora::unruly::Backend>(device);
                   },
               .version = "13"});
}
