#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "commands.h"
#include "files.h"
#include "interrupt.h"
#include "model_options.h"
#include "sampling_flags.h"
#include "tensora/llm/lora.h"

namespace tensora::cli {
namespace {

struct RunSettings {
  ModelOptions model;
  std::string prompt, prompt_file, system, overflow = "refuse", adapter;
  int64_t tokens = -1, keep = 0;
  std::vector<std::string> stop;
  bool chat = false, json = false, echo = false, ignore_end = false, special = false,
       verbose = false;
  double adapter_scale = 1;
  const CLI::Option* prompt_option = nullptr;
};

llm::Overflow overflow_named(const std::string& name) {
  for (const auto policy : {llm::Overflow::refuse, llm::Overflow::truncate, llm::Overflow::shift})
    if (llm::name(policy) == name) return policy;
  throw UsageError("--overflow: expected refuse, truncate or shift, got '" + name + "'");
}

// The text to continue: -p, a file, or what is piped in. A terminal is not waited for.
std::string prompt_of(const RunSettings& settings) {
  if (!settings.prompt_file.empty()) return read_file(settings.prompt_file);
  struct stat input {};
  const bool is_piped =
      fstat(STDIN_FILENO, &input) == 0 && (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode));
  return settings.prompt_option->count() == 0 && is_piped ? read_file("-") : settings.prompt;
}

llm::Request request_of(const RunSettings& settings, const llm::Engine& engine) {
  llm::Request request;
  const std::string text = prompt_of(settings);
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
  request.overflow = overflow_named(settings.overflow);
  request.keep = settings.keep;
  if (!settings.adapter.empty())
    request.adapter = llm::LoraAdapter::load(settings.adapter, engine.model());
  request.adapter_scale = settings.adapter_scale;
  return request;
}

// What was not as the user might think is said, whatever else is.
void tell_what_was_dropped(const llm::Completion& answer, int64_t context) {
  const llm::Usage& usage = answer.usage;
  if (usage.truncated_tokens > 0)
    std::fprintf(stderr,
                 "note: %lld tokens of the prompt were dropped to fit the context of %lld\n",
                 static_cast<long long>(usage.truncated_tokens), static_cast<long long>(context));
  if (usage.shifted_tokens > 0)
    std::fprintf(stderr, "note: %lld tokens were dropped while answering, to stay in the context\n",
                 static_cast<long long>(usage.shifted_tokens));
  if (answer.context_full)
    std::fprintf(stderr, "note: the answer ends because the context of %lld tokens is full\n",
                 static_cast<long long>(context));
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
      loaded.summary.name.c_str(), loaded.framework.c_str(), loaded.seconds,
      static_cast<long long>(usage.prompt_tokens), static_cast<long long>(usage.cached_tokens),
      answer.prompt_per_second(), answer.timings.first_token * 1e3,
      static_cast<long long>(usage.completion_tokens), answer.predicted_per_second(),
      answer.mean_token() * 1e3, answer.timings.min_token * 1e3, answer.timings.max_token * 1e3,
      std::string(llm::name(answer.reason)).c_str(), static_cast<unsigned long long>(answer.seed));
  llm::PerformanceMetrics& metrics = loaded.resources->metrics();
  metrics.add(answer);
  std::fprintf(stderr, "memory  %.3f GB of weights, %.3f GB at most since the start\n",
               static_cast<double>(loaded.summary.bytes) / 1e9, metrics.result().peak_memory_gb);
  if (usage.drafted_tokens > 0)
    std::fprintf(stderr, "guessed %lld tokens, %lld were right\n",
                 static_cast<long long>(usage.drafted_tokens),
                 static_cast<long long>(usage.accepted_tokens));
}

void write_all(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail("standard output cannot be written to");
}

void run(const RunSettings& settings, const llm::SamplingOptions& sampling) {
  const LoadedModel loaded = load_model(settings.model);
  const auto engine = make_engine(loaded, settings.model);
  llm::Request request = request_of(settings, *engine);
  request.sampling = sampling;
  if (settings.echo && !settings.json && request.messages.empty()) write_all(request.prompt);
  const auto* chat = request.messages.empty() ? nullptr : engine->chat_template();
  if (chat && !chat->notice().empty() && !settings.model.quiet)
    std::fprintf(stderr, "note: %s\n", chat->notice().c_str());
  const Interrupt interrupt;
  llm::Generation generation = engine->submit(std::move(request));
  follow(generation, [&](const llm::Piece& piece) {
    if (!settings.json) write_all(piece.text);
  });
  const llm::Completion answer = generation.wait();
  if (settings.json)
    write_all(answer.to_json() + "\n");
  else if (!settings.model.quiet)
    write_all("\n");
  tell_what_was_dropped(answer, engine->options().context);
  if (settings.verbose) tell_figures(loaded, answer);
  if (answer.reason == llm::FinishReason::cancelled) throw Interrupted();
}

void add_prompt_options(CLI::App& app, RunSettings& settings) {
  auto* prompt = app.add_option("prompt,-p,--prompt", settings.prompt,
                                "The text to continue; what is piped in unless given");
  settings.prompt_option = prompt;
  app.add_option("-f,--file", settings.prompt_file, "Read it from a file; -: standard input")
      ->excludes(prompt);
  app.add_option("-n,--tokens", settings.tokens,
                 "At most so many tokens; -1: until the model ends or the context is full")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 31))
      ->capture_default_str();
  app.add_flag("--chat", settings.chat, "The prompt is a message: use the model's chat template");
  app.add_option("--system", settings.system, "What the model is told first; implies --chat");
  app.add_option("--stop", settings.stop, "End the answer before this text; may be repeated");
  app.add_flag("--ignore-eos", settings.ignore_end, "Go on where the model would end");
  app.add_flag("--special", settings.special, "Read and show control tokens by their names");
  app.add_flag("--echo", settings.echo, "Show the prompt, too");
  app.add_option("--overflow", settings.overflow,
                 "A text longer than the context: refuse it, truncate its middle, or shift, going "
                 "on without its older half")
      ->check(CLI::IsMember({"refuse", "truncate", "shift"}))
      ->capture_default_str();
  app.add_option("--keep", settings.keep, "Tokens at the beginning that are never dropped")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  app.add_option("--lora", settings.adapter, "A LoRA adapter: a PEFT folder or a GGUF file");
  app.add_option("--lora-scale", settings.adapter_scale, "Its strength")->capture_default_str();
  app.add_flag("--json", settings.json, "Print one JSON object: text, usage, timings");
  app.add_flag("-v,--verbose", settings.verbose, "Tell speed and memory afterwards");
  app.add_flag("-q,--quiet", settings.model.quiet,
               "Print the generated text and nothing else, not even a line's end");
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
      "Ctrl-C ends the answer; the exit code is then 130.\n\n"
      "Examples:\n"
      "  tensora run model.gguf -p 'Once upon a time' -n 100\n"
      "  tensora run model.gguf --chat 'Why is the sky blue?'\n"
      "  cat essay.txt | tensora run model.gguf -n 50\n"
      "  tensora run model.gguf -p 'The answer is' -n 8 --temp 0 --quiet     for scripts\n"
      "  tensora run model.gguf --chat -p 'A person, as JSON' --json-schema-file person.json\n"
      "  tensora run llama3-8b -f essay.txt --overflow truncate --device cuda --verbose");
  command->callback([settings, sampling] { run(*settings, sampling->options()); });
}

}  // namespace tensora::cli
