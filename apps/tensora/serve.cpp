#include "commands.h"

#ifdef TENSORA_HAS_SERVE

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "files.h"
#include "model_options.h"
#include "number_checks.h"
#include "sampling_flags.h"
#include "synthetic_tokenizer.h"
#include "tensora/base/settings.h"
#include "tensora/serve/engine_service.h"
#include "tensora/serve/server.h"

namespace tensora::cli {
namespace {

struct ServeSettings {
  ModelOptions model;
  std::vector<std::string> models, aliases, adapters, synthetic;
  std::string type = "float16", key_file, template_file, pooling;
  double adapter_scale = 1, drain_seconds = 60;
  int64_t parallel = 32, body_mebibytes = 32, bodies_mebibytes = 512;
  serve::ServerOptions server;
  serve::ServiceOptions service;
};

// --- Signals --------------------------------------------------------------------------------
// The first signal drains the server, a second one ends the program at once; before the server is
// ready, so does the first.
int signal_pipe[2] = {-1, -1};
volatile std::sig_atomic_t is_ready = 0, signals = 0;

void on_signal(int signal) {
  signals = signals + 1;
  if (is_ready == 0 || signals > 1) _exit(128 + signal);
  const char byte = 0;
  if (write(signal_pipe[1], &byte, 1) < 0) _exit(128 + signal);
}

void watch_signals() {
  check(pipe(signal_pipe) == 0, "serve: a pipe cannot be made");
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

void wait_for_signal() {
  char byte = 0;
  while (read(signal_pipe[0], &byte, 1) < 0) {
  }
}

// --- What is served -------------------------------------------------------------------------
// "llama3.gguf" in some folder is "llama3".
std::string name_of(const std::string& model) {
  const std::filesystem::path path(model);
  const std::string last = (path.has_filename() ? path : path.parent_path()).filename().string();
  return last.ends_with(".gguf") ? last.substr(0, last.size() - 5) : last;
}

std::pair<std::string, std::string> split_pair(const std::string& option, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
    throw UsageError(concat(option, ": expected NAME=..., got '", text, "'"));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::shared_ptr<llm::FrameworkBackend> share(LoadedModel loaded) {
  auto all = std::make_shared<LoadedModel>(std::move(loaded));
  return {all, all->backend.get()};  // with its resources
}

std::vector<serve::ModelSource> sources_of(const ServeSettings& settings) {
  std::vector<serve::ModelSource> sources;
  const int64_t parallel = settings.parallel;
  for (const std::string& model : settings.models) {
    ModelOptions options = settings.model;
    options.model = model;
    sources.push_back(
        {.name = name_of(model),
         .path = model,
         .load = [options,
                  parallel] { return share(load_model(options, true, nullptr, parallel)); },
         .pooling = [name = settings.pooling, model] { return chosen_pooling(name, model); }});
  }
  for (const std::string& shape : settings.synthetic) {
    const auto load = [shape, type = settings.type, options = settings.model, parallel] {
      LoadedModel loaded;
      loaded.backend = choose_backend(options);
      loaded.resources = std::make_shared<llm::ResourceManager>(loaded.backend->device());
      loaded.backend->load_synthetic(shape, type, backend_options(options, parallel));
      load_synthetic_tokenizer(*loaded.backend);
      return share(std::move(loaded));
    };
    sources.push_back({.name = shape, .path = "synthetic " + shape, .load = load});
  }
  if (sources.empty()) throw UsageError("expected a MODEL or --synthetic SHAPE");
  for (serve::ModelSource& source : sources) source.slots = parallel;
  for (const std::string& text : settings.aliases) {
    const auto [alias, model] = split_pair("--alias", text);
    const auto found = std::find_if(sources.begin(), sources.end(), [&, wanted = model](auto& one) {
      return one.name == wanted || one.path == wanted;
    });
    if (found == sources.end())
      throw UsageError(concat("--alias ", text, ": there is no model '", model, "'"));
    found->aliases.push_back(alias);
  }
  for (const std::string& text : settings.adapters) {
    const auto [name, path] = split_pair("--lora", text);
    sources[0].adapters.push_back({.name = name, .path = path, .scale = settings.adapter_scale});
  }
  std::set<std::string> names;
  const auto take = [&](const std::string& name) {
    if (!names.insert(name).second)
      throw UsageError(
          concat("two models have the name '", name, "'; rename a file or use --alias"));
  };
  for (const serve::ModelSource& source : sources) {
    take(source.name);
    for (const std::string& alias : source.aliases) take(alias);
    for (const auto& adapter : source.adapters) take(adapter.name);
  }
  return sources;
}

std::vector<serve::ApiKey> keys_of(const ServeSettings& settings) {
  std::vector<serve::ApiKey> keys;
  if (!settings.key_file.empty()) {
    struct stat file {};
    if (stat(settings.key_file.c_str(), &file) == 0 && (file.st_mode & 0077) != 0 &&
        S_ISREG(file.st_mode))
      std::fprintf(stderr, "note: other users may read '%s'; chmod 600 keeps the keys secret\n",
                   settings.key_file.c_str());
    keys = serve::parse_api_keys(read_file(settings.key_file), "'" + settings.key_file + "'");
    check(!keys.empty(), "serve: there is no key in '", settings.key_file, "'");
  }
  const std::string_view own = setting("TENSORA_API_KEY");
  if (!own.empty()) keys.push_back(serve::parse_api_keys(own, "TENSORA_API_KEY").at(0));
  return keys;
}

// --- Running it -----------------------------------------------------------------------------
std::string list_of(const std::vector<serve::ModelSource>& sources) {
  std::string names;
  for (const auto& source : sources) names += (names.empty() ? "" : ", ") + source.name;
  return names;
}

/// What the service says. Its threads begin before the server's log is there, and end after it.
class ServiceLog {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    last_ = line;
    if (server_) server_->log("service", line);
  }
  void write_to(serve::Server* server) {
    const std::lock_guard lock(mutex_);
    server_ = server;
  }
  std::string last() {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  std::mutex mutex_;  // of what follows
  serve::Server* server_ = nullptr;
  std::string last_;
};

// Signals end it, the first one politely.
void run_until_signal(serve::Server& server, double drain_seconds) {
  is_ready = 1;
  wait_for_signal();
  std::fprintf(stderr, "draining: open answers have %g s; a second signal ends them at once\n",
               drain_seconds);
  server.drain();
  if (server.wait_until_idle(drain_seconds)) return;
  server.end_answers();
  server.wait_until_idle(2);
}

// Linux copies what is written to the client at once: a thread writes about 100,000 tokens a
// second.
int chosen_io_threads() {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 8, 1u, 4u));
}

void run_serve(ServeSettings& settings, const SamplingFlags& sampling) {
  settings.service.sampling = sampling.options();
  if (!settings.template_file.empty())
    settings.model.chat_template = read_file(settings.template_file);
  settings.service.models = sources_of(settings);
  const std::vector<serve::ModelSource> sources = settings.service.models;
  settings.server.gate.keys = keys_of(settings);
  settings.server.http.limits.body_bytes = static_cast<size_t>(settings.body_mebibytes) << 20;
  settings.server.http.most_body_bytes = static_cast<size_t>(settings.bodies_mebibytes) << 20;
  if (settings.server.http.threads == 0) settings.server.http.threads = chosen_io_threads();
  ServiceLog log;
  settings.service.log = [&log](const std::string& line) { log.add(line); };
  watch_signals();
  const auto service = serve::make_service(settings.service);
  serve::Server server(settings.server, *service);
  log.write_to(&server);
  // As many as may be loaded at once, the first ones; /ready tells when they are there.
  const size_t at_once = settings.service.models_max > 0
                             ? static_cast<size_t>(settings.service.models_max)
                             : sources.size();
  try {
    for (size_t i = std::min(sources.size(), at_once); i-- > 0;) service->model(sources[i].name);
  } catch (const serve::ApiError& error) {  // which hides from clients what the user has to know
    log.write_to(nullptr);
    const std::string line = log.last();
    fail(line.empty() ? error.what() : line);
  }
  std::printf("serving %s at %s%s\n", list_of(sources).c_str(), server.url().c_str(),
              settings.server.gate.keys.empty() ? "" : " (with API keys)");
  std::fflush(stdout);
  run_until_signal(server, settings.drain_seconds);
  log.write_to(nullptr);
}

void add_network_options(CLI::App& app, ServeSettings& settings) {
  serve::ServerOptions& server = settings.server;
  app.add_option("--host", server.http.host,
                 "Address to listen on; others than this machine's own need API keys")
      ->capture_default_str();
  app.add_option("--port", server.http.port, "Port; 0: one that is free, which is printed")
      ->check(CLI::Range(0, 65535))
      ->default_val(8080);
  app.add_option("--api-keys", settings.key_file,
                 "File with a key per line, 'name:key' or 'key'. TENSORA_API_KEY gives one, too")
      ->type_name("FILE");
  app.add_flag("--allow-open", server.allows_open,
               "Let other machines connect although there are no API keys");
  app.add_option("--tls-cert", server.http.tls_certificate, "Certificate chain, PEM; HTTPS with it")
      ->type_name("FILE");
  app.add_option("--tls-key", server.http.tls_key, "Private key of the certificate, PEM")
      ->type_name("FILE");
  app.add_option("--host-name", server.gate.host_names,
                 "Name that requests may give in Host beside localhost; repeatable")
      ->allow_extra_args(false);
  app.add_option("--cors-origin", server.gate.cors_origins,
                 "Origin whose pages may use the server, such as https://chat.example.com; "
                 "repeatable, *: all")
      ->allow_extra_args(false);
  auto* log = app.add_option("--log-file", server.log,
                             "Access log, JSON lines without prompts; -: standard "
                             "error")
                  ->capture_default_str();
  app.add_flag_callback(
         "--no-log", [&server] { server.log.clear(); }, "Write no access log")
      ->excludes(log);
}

void add_limit_options(CLI::App& app, ServeSettings& settings) {
  serve::ServerOptions& server = settings.server;
  app.add_option("--np,--parallel", settings.parallel,
                 "Sequences of a model that are computed together; more wait")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str();
  app.add_option("--max-waiting", settings.service.max_queued,
                 "Answers that may wait; more are refused with 429")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--max-waiting-per-key", settings.service.max_queued_per_key,
                 "The same for each API key")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--max-active", server.gate.max_active, "Requests at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-active-per-key", server.gate.max_active_per_key,
                 "Requests at once with one API key")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-connections", server.http.max_connections,
                 "Connections at once; more are refused with 503")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-body", settings.body_mebibytes, "Size of a request's body, in MiB")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  app.add_option("--max-bodies", settings.bodies_mebibytes,
                 "Size of all bodies that are being read, in MiB; more get 503")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--models-max", settings.service.models_max,
                 "Models loaded at once; the least recently used one is unloaded. 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1000}))
      ->capture_default_str();
  app.add_option("--deadline", settings.service.deadline,
                 "Seconds that an answer may take, waiting included. 0: no limit")
      ->check(non_negative)
      ->capture_default_str();
  app.add_option("--drain-timeout", settings.drain_seconds,
                 "Seconds that open answers have after SIGTERM or Ctrl-C")
      ->check(non_negative)
      ->capture_default_str();
  app.add_option("--resumable-streams", server.streams.max_streams,
                 "Answers with the header x-conversation-id that are kept for clients that lost "
                 "their connection. 0: none")
      ->check(CLI::Range(size_t{0}, size_t{65536}))
      ->capture_default_str();
  app.add_option("--resume-timeout", server.streams.retention,
                 "Seconds for which such an answer goes on without a client, and is kept after its "
                 "end")
      ->check(positive)
      ->capture_default_str();
  server.http.threads = 0;
  app.add_option("--io-threads", server.http.threads,
                 "Threads that write answers. Default 0: one per 8 cores, from 1 to 4")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--workers", server.workers, "Threads that parse and tokenize requests")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "serve", "Serve models over HTTP: the APIs of OpenAI and others, and a chat page");
  auto settings = std::make_shared<ServeSettings>();
  command
      ->add_option("models,-m,--model", settings->models,
                   "GGUF files, Hugging Face folders, or names of pulled models")
      ->type_name("MODEL");
  command->add_option("--alias", settings->aliases, "Another name for a model; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME=MODEL");
  auto* lora =
      command
          ->add_option("--lora", settings->adapters,
                       "LoRA adapter of the first model, served as a model of its own; repeatable")
          ->allow_extra_args(false)
          ->type_name("NAME=FILE");
  command->add_option("--lora-scale", settings->adapter_scale, "Scale of the LoRA adapters")
      ->needs(lora)
      ->capture_default_str();
  auto* synthetic =
      command
          ->add_option("--synthetic", settings->synthetic,
                       "A registered shape with random weights, to measure with; repeatable")
          ->allow_extra_args(false)
          ->type_name("SHAPE");
  command->add_option("--type", settings->type, "Data type of synthetic weights")
      ->needs(synthetic)
      ->capture_default_str();
  command
      ->add_option("--template", settings->template_file,
                   "Jinja chat template instead of the model's own")
      ->type_name("FILE");
  command
      ->add_option(
          "--pooling", settings->pooling,
          "Pooling of embeddings: mean, last or first; rank: /v1/rerank asks the model for yes or "
          "no. Default: the model's own, or mean")
      ->check(CLI::IsMember({"mean", "last", "first", "cls", "rank"}));
  add_network_options(*command, *settings);
  add_limit_options(*command, *settings);
  add_model_options(*command, settings->model);
  add_engine_options(*command, settings->model);
  command->add_flag("-q,--quiet", settings->model.quiet, "Say less on standard error");
  auto sampling = std::make_shared<SamplingFlags>(*command);
  command->footer(
      "Sampling options are the defaults of requests that do not say. SIGTERM or Ctrl-C lets open\n"
      "answers finish; the exit code is then 0. docs/serving.md is the guide.\n\n"
      "Examples:\n"
      "  tensora serve model.gguf                         then open http://127.0.0.1:8080\n"
      "  tensora serve llama3-8b --alias gpt-4o=llama3-8b --parallel 64\n"
      "  tensora serve model.gguf --host 0.0.0.0 --api-keys keys.txt --tls-cert cert.pem "
      "--tls-key key.pem");
  command->callback([settings, sampling] { run_serve(*settings, *sampling); });
}

}  // namespace tensora::cli

#else

namespace tensora::cli {

void add_serve(CLI::App& app) {
  app.add_subcommand("serve", "Serve models over HTTP")->allow_extras()->callback([] {
    fail("this build has no server: Boost 1.74 or newer was not found when it was made");
  });
}

}  // namespace tensora::cli

#endif
