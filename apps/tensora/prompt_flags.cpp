#include "prompt_flags.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "files.h"

namespace tensora::cli {
namespace {

llm::Overflow overflow_named(const std::string& name) {
  for (const auto policy : {llm::Overflow::refuse, llm::Overflow::truncate, llm::Overflow::shift})
    if (llm::name(policy) == name) return policy;
  throw UsageError("--overflow: expected refuse, truncate or shift, got '" + name + "'");
}

// NAME=VALUE; a value that is JSON (true, 3, "text", [1]) is that value, anything else a string.
std::string variables_of(const std::vector<std::string>& assignments) {
  nlohmann::json variables = nlohmann::json::object();
  for (const std::string& text : assignments) {
    const size_t equals = text.find('=');
    if (equals == text.npos || equals == 0)
      throw UsageError("--template-var: expected NAME=VALUE, got '" + text + "'");
    const std::string value = text.substr(equals + 1);
    const auto parsed = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
    variables[text.substr(0, equals)] = parsed.is_discarded() ? nlohmann::json(value) : parsed;
  }
  return variables.empty() ? "" : variables.dump();
}

}  // namespace

void PromptFlags::add_to(CLI::App& app) {
  app.add_option("--template", template_file, "Jinja chat template instead of the model's own")
      ->type_name("FILE");
  app.add_option(
         "--template-var", template_vars,
         "Variable of the chat template, such as enable_thinking=false; repeatable. A VALUE "
         "is JSON or else a string")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);  // or it would take the words behind it, too
  app.add_flag("--show-prompt", shows_prompt,
               "Write the prompt to standard error as the model sees it, control tokens included");
  app.add_option("--overflow", overflow,
                 "Policy for a text longer than the context: refuse it, truncate its middle, or "
                 "shift (drop the older half while generating)")
      ->check(CLI::IsMember({"refuse", "truncate", "shift"}))
      ->capture_default_str();
  app.add_option("--keep", keep, "Tokens at the beginning that are never dropped. Default 0")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
}

std::string PromptFlags::template_source() const {
  return template_file.empty() ? "" : read_file(template_file);
}

void PromptFlags::validate() const {
  llm::Request request;
  apply(request);
}

void PromptFlags::apply(llm::Request& request) const {
  request.overflow = overflow_named(overflow);
  request.keep = keep;
  request.chat.variables = variables_of(template_vars);
}

void PromptFlags::show(llm::FrameworkBackend& backend, const llm::Request& request) const {
  if (!shows_prompt) return;
  std::string text;
  for (const int32_t token : backend.tokens_of(request))
    text += backend.tokenizer()->bytes_of(token, {.special = true});
  std::fprintf(stderr, "%s\n", text.c_str());
}

void tell_dropped(const llm::Completion& answer, int64_t context, const char* when_full) {
  const llm::Usage& usage = answer.usage;
  if (usage.truncated_tokens > 0)
    std::fprintf(stderr,
                 "note: %lld tokens of the prompt were dropped to fit the context of %lld\n",
                 static_cast<long long>(usage.truncated_tokens), static_cast<long long>(context));
  if (usage.shifted_tokens > 0)
    std::fprintf(stderr,
                 "note: %lld tokens were dropped while generating, to stay in the context\n",
                 static_cast<long long>(usage.shifted_tokens));
  if (answer.context_full)
    std::fprintf(stderr, "note: the answer ends because the context of %lld tokens is full%s\n",
                 static_cast<long long>(context), when_full);
}

}  // namespace tensora::cli
