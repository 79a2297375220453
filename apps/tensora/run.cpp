#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "commands.h"
#include "files.h"
#include "interrupt.h"
#include "model_options.h"
#include "prompt_flags.h"
#include "sampling_flags.h"

namespace tensora::cli {
namespace {

struct RunSettings {
  ModelOptions model;
  PromptFlags flags;
  std::string prompt, prompt_file, system, adapter;
  int64_t tokens = -1;
  std::vector<std::string> stop;
  bool chat = false, json = false, echo = false, ignore_end = false, special = false,
       verbose = false;
  double adapter_scale = 1;
  const CLI::Option* prompt_option = nullptr;
};

// The text to continue: -p, a file, or what is piped in. A terminal is not waited for.
std::string prompt_of(const RunSettings& settings) {
  if (!settings.prompt_file.empty()) return read_file(settings.prompt_file);
  struct stat input {};
  const bool is_piped =
      fstat(STDIN_FILENO, &input) == 0 && (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode));
  return settings.prompt_option->count() == 0 && is_piped ? read_file("-") : settings.prompt;
}

llm::Request request_of(const RunSettings& settings, const std::string& text,
                        llm::FrameworkBackend& backend) {
  llm::Request request;
  if (settings.chat || !settings.system.empty()) {
    if (!settings.system.empty())
      request.messages.push_back({.role = "system", .content = settings.system});
    request.messages.push_back({.role = "user", .content = text});
  } else {
    request.prompt = text;
  }
  request.max_tokens = settings.tokens;
  request.stop = settings.stop;
  request.ignore_end = settings.ignore_end;
  request.shows_special = request.parse_special = settings.special;
  settings.flags.apply(request);
  if (!settings.adapter.empty()) request.adapter = backend.load_adapter(settings.adapter);
  request.adapter_scale = settings.adapter_scale;
  return request;
}

void tell_figures(const LoadedModel& loaded, const llm::Completion& answer) {
  const llm::Usage& usage = answer.usage;
  std::fprintf(
      stderr,
      "%s on %s, loaded in %.3f s\n"
      "prompt  %6lld tokens (%lld cached)  %8.1f tokens/s   first token after %.1f ms\n"
      "answer  %6lld tokens               %8.1f tokens/s   %.3f ms per token, %.3f to "
      "%.3f\n"
      "ended: %s, seed %llu\n",
      loaded.info.summary.name.c_str(), loaded.backend->label().c_str(), loaded.seconds,
      static_cast<long long>(usage.prompt_tokens), static_cast<long long>(usage.cached_tokens),
      answer.prompt_per_second(), answer.timings.first_token * 1e3,
      static_cast<long long>(usage.completion_tokens), answer.predicted_per_second(),
      answer.mean_token() * 1e3, answer.timings.min_token * 1e3, answer.timings.max_token * 1e3,
      std::string(llm::name(answer.reason)).c_str(), static_cast<unsigned long long>(answer.seed));
  llm::PerformanceMetrics& metrics = loaded.resources->metrics();
  metrics.add(answer);
  std::fprintf(stderr, "memory  %.3f GB of weights, %.3f GB at most since the start\n",
               static_cast<double>(loaded.info.summary.bytes) / 1e9,
               metrics.result().peak_memory_gb);
  if (usage.drafted_tokens > 0)
    std::fprintf(stderr, "drafted %lld tokens, %lld accepted\n",
                 static_cast<long long>(usage.drafted_tokens),
                 static_cast<long long>(usage.accepted_tokens));
}

void write_all(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail("standard output cannot be written to");
}

// Options that would be read and then not used.
void check_words(const RunSettings& settings) {
  const bool chats = settings.chat || !settings.system.empty();
  if (!chats && settings.flags.changes_template())
    throw UsageError(
        "--template and --template-var are for messages: add --chat, or leave them out to continue "
        "the text as it stands");
  if (settings.echo && (chats || settings.json))
    throw UsageError(concat("--echo does not go with ", chats ? "--chat" : "--json",
                            ": use --show-prompt to see the prompt"));
}

void run(RunSettings settings, const SamplingFlags& flags) {
  const llm::SamplingOptions sampling = flags.options();
  settings.flags.validate();
  check_words(settings);
  settings.model.chat_template = settings.flags.template_source();
  const std::string text = prompt_of(settings);  // before a model is loaded for nothing
  const LoadedModel loaded = load_model(settings.model);
  llm::FrameworkBackend& backend = *loaded.backend;
  llm::Request request = request_of(settings, text, backend);
  request.sampling = sampling;
  settings.flags.show(backend, request);
  if (settings.echo) write_all(request.prompt);
  const auto* chat = request.messages.empty() ? nullptr : backend.chat_template();
  if (chat && !chat->notice().empty() && !settings.model.quiet)
    std::fprintf(stderr, "note: %s\n", chat->notice().c_str());
  const Interrupt interrupt;
  llm::Generation generation = backend.submit(std::move(request));
  follow(generation, [&](const llm::Piece& piece) {
    if (!settings.json) write_all(piece.text);
  });
  const llm::Completion answer = generation.wait();
  if (settings.json)
    write_all(answer.to_json() + "\n");
  else if (!settings.model.quiet)
    write_all("\n");
  tell_dropped(answer, backend.context());
  if (flags.asks_for_random_seed() && !settings.model.quiet)
    std::fprintf(stderr, "note: the seed was %llu\n", static_cast<unsigned long long>(answer.seed));
  if (settings.verbose) tell_figures(loaded, answer);
  if (answer.reason == llm::FinishReason::cancelled) throw Interrupted();
}

void add_prompt_options(CLI::App& app, RunSettings& settings) {
  auto* prompt =
      app.add_option("prompt,-p,--prompt", settings.prompt,
                     "Prompt: the text to continue. Default: standard input, where it is piped in");
  settings.prompt_option = prompt;
  app.add_option("-f,--file", settings.prompt_file, "Read it from a file; -: standard input")
      ->excludes(prompt);
  app.add_option("-n,--tokens", settings.tokens,
                 "Number of tokens to generate; -1: until the model ends or the context is full")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 31))
      ->capture_default_str();
  app.add_flag("--chat", settings.chat, "The prompt is a message: use the model's chat template");
  app.add_option("--system", settings.system, "System prompt; implies --chat");
  app.add_option("--stop", settings.stop, "End the answer before this text; repeatable")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", settings.ignore_end, "Go on where the model would end");
  app.add_flag("--special", settings.special, "Read and show control tokens by their names");
  app.add_flag("--echo", settings.echo, "Print the prompt before the generated text");
  settings.flags.add_to(app);
  auto* lora =
      app.add_option("--lora", settings.adapter, "A LoRA adapter: a PEFT folder or a GGUF file");
  app.add_option("--lora-scale", settings.adapter_scale, "Scale of the LoRA adapter")
      ->needs(lora)
      ->capture_default_str();
  app.add_flag("--json", settings.json, "Print one JSON object: text, usage, timings");
  app.add_flag("-v,--verbose", settings.verbose, "Tell speed and memory afterwards");
  app.add_flag("-q,--quiet", settings.model.quiet,
               "Print only the generated text, without a trailing newline");
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Continue a text, or answer one message");
  auto settings = std::make_shared<RunSettings>();
  command
      ->add_option("model,-m,--model", settings->model.model,
                   "A GGUF file, a Hugging Face folder, or the name of a pulled model")
      ->required()
      ->type_name("MODEL");
  add_prompt_options(*command, *settings);
  add_model_options(*command, settings->model);
  add_engine_options(*command, settings->model);
  auto sampling = std::make_shared<SamplingFlags>(*command);
  command->footer(
      "Ctrl-C ends the answer; the exit code is then 130. Most of llama.cpp's option names work, "
      "too.\n\n"
      "Examples:\n"
      "  tensora run model.gguf -p 'Once upon a time' -n 100\n"
      "  tensora run model.gguf --chat 'Why is the sky blue?'\n"
      "  cat essay.txt | tensora run model.gguf -n 50\n"
      "  tensora run model.gguf -p 'The answer is' -n 8 --temp 0 --quiet     for scripts\n"
      "  tensora run model.gguf --chat -p 'A person, as JSON' --json-schema-file person.json\n"
      "  tensora run llama3-8b -f essay.txt --overflow truncate --device cuda --verbose");
  command->callback([settings, sampling] { run(*settings, *sampling); });
}

}  // namespace tensora::cli
