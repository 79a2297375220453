// The process that runs one framework for `tensora bench --framework a,b`.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>

#include "bench_worker.h"
#include "model_options.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/backend.h"
#include "tensora/llm/backends/backend_manager.h"
#include "tensora/ops.h"

namespace tensora::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using llm::SequenceSession;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// Seconds since the kernel started this process, loading of its libraries included.
double seconds_since_start() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text.erase(0, text.rfind(')') + 1);  // the name may have spaces
  std::istringstream fields(text);
  std::string skipped;
  for (int i = 0; i < 19; ++i) fields >> skipped;
  double ticks = 0, now = 0;
  std::ifstream uptime("/proc/uptime");
  if (!(fields >> ticks) || !(uptime >> now)) return 0;
  return now - ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Seconds that all threads of this process have run.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Bytes of physical memory from /proc/self/status.
double status_bytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1)) * 1024;
  return 0;
}

class Worker {
 public:
  json answer(const json& request) {
    const std::string what = request.at("do");
    if (what == "load_model") return load(request);
    if (what == "bandwidth")
      return {{"bytes_per_second",
               llm::measured_bandwidth(Device(request.at("device").get<std::string>()))}};
    check(backend_ != nullptr, "no framework is loaded");
    if (what == "first_token") return first_token(request.at("prompt"));
    if (what == "generate") return generate(request.at("tokens"), request.at("count"));
    if (what == "logits")
      return write_logits(request.at("tokens"), request.at("prompt"), request.at("file"));
    if (what == "open_sequences") return open(request);
    if (what == "forward") return repeat();
    if (what == "memory_usage") return close();
    check(what == "cleanup", "unknown request ", what);
    course_.reset();
    backend_->cleanup();
    resources_.reset();
    return {{"rss", status_bytes("VmRSS")}};
  }

 private:
  json load(const json& request) {
    ModelOptions options;
    options.framework = request.at("framework");
    options.device = request.at("device");
    options.level = request.at("level");
    options.quantize = request.at("quantize");
    options.cache_type = request.at("cache_type");
    options.context = request.at("context");
    options.threads = request.at("threads");
    options.framework_settings = request.at("settings").get<std::vector<std::string>>();
    options.framework_seconds = 0;  // this is the other process
    options.require = true;
    options.quiet = true;
    const double before_loading = seconds_since_start();
    backend_ = choose_backend(options);
    const double chosen = seconds_since_start();
    resources_ = std::make_shared<llm::ResourceManager>(backend_->device());
    llm::BackendOptions how = backend_options(options);
    how.note = [&](const std::string& note) { notes_.push_back(note); };
    const auto began = Clock::now();
    const std::string synthetic = request.at("synthetic");
    if (synthetic.empty())
      backend_->load_model(request.at("path"), how);
    else
      backend_->load_synthetic(synthetic, request.at("type"), how);
    synchronize(backend_->device());
    const double seconds = seconds_since(began);
    info_ = backend_->model_info();
    cache_ = options.cache_type.empty() ? info_.cache_dtype : dtype_named(options.cache_type);
    resources_->metrics().describe(backend_->label(), info_.summary);
    resources_->metrics().set_loading(seconds);
    return {{"label", backend_->label()},
            {"device", to_string(backend_->device())},
            {"refusals", backend_->refusals()},
            {"model", info_.summary.name},
            {"model_size", llm::count_text(static_cast<double>(info_.summary.parameters))},
            {"model_precision", info_.summary.precision},
            {"parameters", info_.summary.parameters},
            {"weight_bytes", info_.summary.bytes},
            {"vocabulary", info_.config.vocab_size},
            {"positions", info_.positions},
            {"cache_type", std::string(tensora::name(cache_))},
            {"threads", get_num_threads()},
            {"process_seconds", before_loading},
            {"framework_seconds", chosen - before_loading},
            {"load_seconds", seconds},
            {"device_bytes", device_bytes()},
            {"report", report()}};
  }

  json report() const {
    const llm::ExecutionReport report = backend_->report();
    std::vector<std::string> notes = notes_;
    notes.insert(notes.end(), report.notes.begin(), report.notes.end());
    return {{"version", report.version},
            {"level", report.level},
            {"precision", report.precision.empty() ? info_.summary.precision : report.precision},
            {"dequantized", report.dequantized},
            {"notes", notes},
            {"kernel_cache",
             {{"entries", report.kernels.entries},
              {"bytes", report.kernels.bytes},
              {"hits", report.kernels.hits},
              {"misses", report.kernels.misses},
              {"hit_rate", report.kernels.hit_rate()},
              {"compile_seconds", report.kernels.compile_seconds}}}};
  }

  json first_token(int64_t prompt) {
    const auto session = backend_->open_sequences({.context = prompt + 1, .cache_dtype = cache_});
    std::vector<int32_t> tokens(static_cast<size_t>(prompt));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>(i) % static_cast<int32_t>(info_.config.vocab_size);
    const auto began = Clock::now();
    const auto chosen = to_vector<int64_t>(argmax(session->read(0, tokens), -1));
    const int32_t next[] = {static_cast<int32_t>(chosen.back())};
    const double first = seconds_since(began);
    session->read(0, next);
    session->synchronize();
    return {{"since_start", seconds_since_start()},
            {"prefill", first},
            {"decode", seconds_since(began) - first}};
  }

  json generate(std::vector<int32_t> tokens, int64_t count) {
    const auto session = backend_->open_sequences(
        {.context = static_cast<int64_t>(tokens.size()) + count, .cache_dtype = cache_});
    std::vector<int32_t> out;
    Tensor logits = session->read(0, tokens);
    while (true) {
      out.push_back(static_cast<int32_t>(to_vector<int64_t>(argmax(logits, -1)).back()));
      if (std::ssize(out) == count) return {{"tokens", out}};
      logits = session->read(0, std::span(out).last(1));
    }
  }

  // Of all tokens at once, as a prompt is read, and of those behind the prompt in decode steps:
  // these may be computed by other kernels, a graph or a compiled package.
  json write_logits(const std::vector<int32_t>& tokens, int64_t prompt, const std::string& path) {
    const auto count = static_cast<int64_t>(tokens.size());
    const auto session = backend_->open_sequences(
        {.context = count, .max_batch_tokens = count, .cache_dtype = cache_});
    std::ofstream file(path, std::ios::binary);
    const auto append = [&](std::span<const int32_t> step) {
      const SequenceSession::Part part{0, step};
      const Tensor logits = session->forward({&part, 1}, SequenceSession::Rows::all)
                                .to(Device())
                                .to(kFloat32)
                                .contiguous();
      const Shape expected{std::ssize(step), info_.config.vocab_size};
      check(logits.shape() == expected, "expected logits of the shape ", expected, ", got ",
            logits.shape());
      file.write(static_cast<const char*>(logits.data_ptr()),
                 static_cast<std::streamsize>(logits.nbytes()));
    };
    append(tokens);
    session->truncate(0, prompt);
    for (const int32_t& token : std::span(tokens).subspan(static_cast<size_t>(prompt)))
      append({&token, 1});
    check(file.flush().good(), path, ": cannot be written");
    return json::object();
  }

  json open(const json& request) {
    course_.reset();
    test_ = {.prompt = request.at("n_prompt"),
             .generate = request.at("n_gen"),
             .depth = request.at("n_depth"),
             .sequences = request.at("n_sequences")};
    loaded_bytes_ = memory_stats(backend_->device()).allocated;
    allocator(backend_->device()).reset_peaks();
    course_ = std::make_unique<llm::BenchCourse>(
        *backend_, test_,
        llm::BenchOptions{.batch = request.at("batch"),
                          .cache_dtype = cache_,
                          .steps_at_once = request.at("steps_at_once")});
    llm::BenchSamples untimed;
    course_->warm_up();
    course_->repeat(untimed);
    return {{"warm_up_seconds", untimed.total.back()},
            {"bytes_per_step", test_.generate > 0
                                   ? llm::bytes_per_step(info_.summary, info_.config, test_, cache_)
                                   : 0.}};
  }

  json repeat() {
    check(course_ != nullptr, "no test is open");
    llm::BenchSamples samples;
    const double before = processor_seconds();
    course_->repeat(samples);
    return {{"total", samples.total[0]},
            {"prompt", samples.prompt[0]},
            {"steps", samples.steps},
            {"processor", processor_seconds() - before}};
  }

  json close() {
    const llm::BackendMemory memory = backend_->memory_usage();
    const llm::ExecutionReport about = backend_->report();
    llm::GraphStats graphs = about.graphs;
    int64_t cache = memory.cache_bytes;
    if (course_) {
      graphs += course_->session().graph_stats();
      cache += course_->session().cache_bytes();
    }
    // What Tensora's allocator gave out beside the model and the cache while the test ran.
    const uint64_t most = memory_stats(backend_->device()).peak_allocated;
    const auto beside = static_cast<int64_t>(most - std::min(most, loaded_bytes_)) - cache;
    json out = {{"weight_bytes", std::max(memory.model_bytes, info_.summary.bytes)},
                {"cache_bytes", cache},
                {"workspace_bytes", std::max({about.workspace_bytes, beside, int64_t{0}})},
                {"device_bytes", device_bytes()},
                {"host_bytes", status_bytes("VmRSS")},
                {"host_peak", status_bytes("VmHWM")},
                {"host_private", status_bytes("RssAnon")},
                {"host_files", status_bytes("RssFile")},
                {"graphs",
                 {{"recorded", graphs.recorded},
                  {"replays", graphs.replays},
                  {"eager_steps", graphs.eager_steps},
                  {"record_seconds", graphs.record_seconds}}},
                {"report", report()}};
    course_.reset();
    return out;
  }

  // Of another device than the CPU: what Tensora's and the framework's allocators hold.
  int64_t device_bytes() const {
    const Device device = backend_->device();
    if (device.is_cpu()) return 0;
    return static_cast<int64_t>(memory_stats(device).reserved) + backend_->report().framework_bytes;
  }

  std::shared_ptr<llm::FrameworkBackend> backend_;
  std::shared_ptr<llm::ResourceManager> resources_;
  llm::ModelInfo info_;
  DType cache_ = kFloat16;
  llm::BenchTest test_;
  uint64_t loaded_bytes_ = 0;
  std::unique_ptr<llm::BenchCourse> course_;  // before the backend's memory goes
  std::vector<std::string> notes_;
};

}  // namespace

void serve_bench_worker() {
  const ParentLine parent;
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      answer = worker.answer(json::parse(line));
    } catch (const std::exception& error) {
      answer = {{"error", *error.what() ? error.what() : "an exception without a message"}};
    } catch (...) {
      answer = {{"error", "it threw something that is no std::exception"}};
    }
    parent.send(answer.dump(-1, ' ', false, json::error_handler_t::replace));
  }
}

}  // namespace tensora::cli
