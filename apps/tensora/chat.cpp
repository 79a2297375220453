#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "files.h"
#include "interrupt.h"
#include "line_editor.h"
#include "model_options.h"
#include "prompt_flags.h"
#include "sampling_flags.h"

namespace tensora::cli {
namespace {

struct ChatSettings {
  ModelOptions model;
  PromptFlags flags;
  std::string system, load;
  int64_t tokens = -1;
};

constexpr const char* kHelp =
    "  /help            this list\n"
    "  /bye             leave (also Ctrl-D)\n"
    "  /clear           forget the conversation, not the system prompt\n"
    "  /system [TEXT]   show or change the system prompt, and begin anew\n"
    "  /retry           another answer to the last message\n"
    "  /undo            take the last message and its answer back\n"
    "  /history         show the conversation\n"
    "  /set NAME VALUE  temp, top-k, top-p, min-p, repeat-penalty, seed or tokens\n"
    "  /stats           tokens and speed of the last answer\n"
    "  /save FILE       write the conversation as JSON;  /load FILE  reads it\n"
    "  /save! FILE      the same, replacing a file without asking\n"
    "A line that ends with \\ goes on with the next one. Ctrl-C stops the answer.\n"
    "Arrow keys edit the line and bring earlier ones back.\n";

constexpr double kMostWhole = 9007199254740992;  // 2^53: a double holds all whole numbers up to it

class Chat {
 public:
  Chat(const ChatSettings& settings, llm::SamplingOptions sampling)
      : settings_(settings),
        sampling_(std::move(sampling)),
        loaded_(load_model(settings.model)),
        backend_(*loaded_.backend),
        shows_prompt_(isatty(0) != 0 && !settings.model.quiet),
        lines_(shows_prompt_ && LineEditor::can_edit()) {
    if (!settings.system.empty()) set_system(settings.system);
    if (!settings.load.empty()) load(settings.load);
  }

  void talk() {
    greet();
    const Interrupt interrupt;
    std::string line, text;
    while (true) {
      const LineEditor::Result result = ask(text.empty() ? "> " : ". ", line);
      if (result == LineEditor::Result::end) break;
      if (result == LineEditor::Result::interrupted) {
        say("(/bye or Ctrl-D leaves)\n");
        text.clear();
        continue;
      }
      lines_.remember(line);
      if (!line.empty() && line.back() == '\\') {
        text += line.substr(0, line.size() - 1) + "\n";
        continue;
      }
      text += line;
      if (!take(std::exchange(text, {}))) break;
    }
  }

 private:
  void greet() const {
    say(concat(loaded_.info.summary.name, " on ", backend_.label(), ", a context of ",
               backend_.context(), " tokens; /help tells more\n"));
    if (const auto* chat = backend_.chat_template(); chat && !chat->notice().empty())
      std::fprintf(stderr, "note: %s\n", chat->notice().c_str());
  }
  // What only people read.
  void say(const std::string& text) const {
    if (!shows_prompt_) return;
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }
  LineEditor::Result ask(const std::string& prompt, std::string& line) {
    if (!lines_.edits()) say(prompt);
    const LineEditor::Result result = lines_.read(prompt, line);
    if (!lines_.edits() && result != LineEditor::Result::line) say("\n");
    return result;
  }
  // Whether the user agrees. A script is not asked: `otherwise` is its answer.
  bool confirms(const std::string& question, bool otherwise) {
    if (!shows_prompt_) return otherwise;
    std::string line;
    return ask(question + " [y/N] ", line) == LineEditor::Result::line &&
           (line == "y" || line == "Y" || line == "yes");
  }
  void set_system(const std::string& text) {
    messages_.clear();
    if (!text.empty()) messages_.push_back({.role = "system", .content = text});
  }

  // False: leave. A mistake in a command does not end the conversation.
  bool take(const std::string& text) try {
    if (text.empty()) return true;
    if (text == "/bye" || text == "/exit" || text == "/quit") return false;
    if (text[0] == '/') {
      command(text);
      return true;
    }
    messages_.push_back({.role = "user", .content = text});
    answer();
    return true;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return true;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return true;
  }

  void answer() {
    llm::Generation generation = [&] {
      try {
        llm::Request request{
            .messages = messages_, .sampling = sampling_, .max_tokens = settings_.tokens};
        settings_.flags.apply(request);
        settings_.flags.show(backend_, request);
        return backend_.submit(std::move(request));
      } catch (...) {
        messages_.pop_back();  // a message that cannot be sent was not said
        throw;
      }
    }();
    follow(generation, [](const llm::Piece& piece) {
      std::fwrite(piece.text.data(), 1, piece.text.size(), stdout);
      std::fflush(stdout);
    });
    last_ = generation.wait();
    std::puts(last_.reason == llm::FinishReason::cancelled ? " …" : "");
    std::fflush(stdout);
    tell_dropped(last_, backend_.context(), "; /clear begins anew");
    messages_.push_back({.role = "assistant", .content = last_.text});
  }

  void command(const std::string& text) {
    const size_t blank = text.find(' ');
    const std::string name = text.substr(0, blank);
    const std::string rest = blank == text.npos ? "" : text.substr(blank + 1);
    if (name == "/help") {
      std::fputs(kHelp, stderr);
    } else if (name == "/clear") {
      clear();
    } else if (name == "/system" && rest.empty()) {
      const bool has_system = !messages_.empty() && messages_[0].role == "system";
      std::fprintf(stderr, "%s\n", has_system ? messages_[0].content.c_str() : "(none)");
    } else if (name == "/system") {
      set_system(rest);
    } else if (name == "/retry" || name == "/undo") {
      take_back(name == "/retry");
    } else if (name == "/history") {
      for (const llm::Message& message : messages_)
        std::fprintf(stderr, "[%s] %s\n", message.role.c_str(), message.content.c_str());
    } else if (name == "/set") {
      set(rest);
    } else if (name == "/stats") {
      tell_stats();
    } else if ((name == "/save" || name == "/save!") && !rest.empty()) {
      save(rest, name == "/save!");
    } else if (name == "/load" && !rest.empty()) {
      load(rest);
    } else {
      fail("there is no command '", text, "'; /help lists them");
    }
  }

  void clear() {
    const size_t kept = !messages_.empty() && messages_[0].role == "system" ? 1 : 0;
    if (messages_.size() > kept &&
        !confirms(concat("forget ", messages_.size() - kept, " messages?"), true))
      return;
    messages_.resize(kept);
  }

  void take_back(bool answers_again) {
    while (!messages_.empty() && messages_.back().role == "assistant") messages_.pop_back();
    check(!messages_.empty() && messages_.back().role == "user", "nothing was said yet");
    if (answers_again)
      answer();
    else
      messages_.pop_back();
  }

  void set(const std::string& text) {
    const size_t blank = text.find(' ');
    check(blank != text.npos, "/set: expected a name and a value, got '", text, "'");
    const std::string name = text.substr(0, blank);
    llm::SamplingOptions changed = sampling_;
    int64_t tokens = settings_.tokens;
    try {
      size_t end = 0;
      const double value = std::stod(text.substr(blank + 1), &end);
      check(end == text.size() - blank - 1, "/set: '", text.substr(blank + 1), "' is no number");
      const bool is_whole = value == std::floor(value) && std::fabs(value) <= kMostWhole;
      if (name == "temp")
        changed.temperature = value;
      else if (name == "top-k" && is_whole)
        changed.top_k = static_cast<int64_t>(value);
      else if (name == "top-p")
        changed.top_p = value;
      else if (name == "min-p")
        changed.min_p = value;
      else if (name == "repeat-penalty")
        changed.repeat_penalty = value;
      else if (name == "seed" && is_whole && value >= -1)
        changed.seed = value < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(value));
      else if (name == "tokens" && is_whole && value >= -1)
        tokens = static_cast<int64_t>(value);
      else
        fail("/set: there is no setting '", name, "' with this value; /help lists them");
    } catch (const std::logic_error&) {
      fail("/set: '", text.substr(blank + 1), "' is no number");
    }
    changed.validate();
    sampling_ = changed;
    settings_.tokens = tokens;
  }

  void tell_stats() const {
    const llm::Usage& usage = last_.usage;
    std::fprintf(stderr,
                 "prompt %lld tokens, %lld of them cached%s; answer %lld tokens, %.1f per second, "
                 "the first after %.1f ms; seed %llu\n",
                 static_cast<long long>(usage.prompt_tokens),
                 static_cast<long long>(usage.cached_tokens),
                 usage.prefix_broken_at
                     ? concat(" (token ", *usage.prefix_broken_at, " differs from before)").c_str()
                     : "",
                 static_cast<long long>(usage.completion_tokens), last_.predicted_per_second(),
                 last_.timings.first_token * 1e3, static_cast<unsigned long long>(last_.seed));
  }

  void save(const std::string& path, bool replaces) {
    std::error_code ignored;
    if (!replaces && std::filesystem::exists(path, ignored)) {
      check(shows_prompt_, path, " exists; /save! ", path, " replaces it");
      if (!confirms(concat(path, " exists; replace it?"), false)) return;
    }
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const llm::Message& message : messages_)
      list.push_back({{"role", message.role}, {"content", message.content}});
    write_file(path, list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

  void load(const std::string& path) {
    std::vector<llm::Message> read;
    try {
      for (const auto& entry : nlohmann::json::parse(read_file(path)))
        read.push_back({.role = entry.at("role").get<std::string>(),
                        .content = entry.at("content").get<std::string>()});
    } catch (const nlohmann::json::exception& error) {
      fail(path, ": expected a list of messages with role and content: ", error.what());
    }
    messages_ = std::move(read);
  }

  ChatSettings settings_;
  llm::SamplingOptions sampling_;
  LoadedModel loaded_;
  llm::FrameworkBackend& backend_;
  bool shows_prompt_;
  LineEditor lines_;
  std::vector<llm::Message> messages_;
  llm::Completion last_;
};

}  // namespace

void add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk to a model");
  auto settings = std::make_shared<ChatSettings>();
  command
      ->add_option("model,-m,--model", settings->model.model,
                   "A GGUF file, a Hugging Face folder, or the name of a pulled model")
      ->required()
      ->type_name("MODEL");
  command->add_option("--system", settings->system, "System prompt");
  command->add_option("--load", settings->load, "Go on with a conversation that /save wrote");
  command
      ->add_option("-n,--tokens", settings->tokens,
                   "Number of tokens to generate per answer; -1: no limit")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 31));
  command->add_flag("-q,--quiet", settings->model.quiet, "Print only the answers");
  settings->flags.add_to(*command);
  add_model_options(*command, settings->model);
  add_engine_options(*command, settings->model);
  auto sampling = std::make_shared<SamplingFlags>(*command);
  command->footer(
      "Answers go to standard output, everything else to standard error. Messages are read from\n"
      "standard input, a line each, so a script can talk, too. What was said stays in the cache:\n"
      "only the new message is computed. In the conversation:\n" +
      std::string(kHelp) +
      "\nExamples:\n"
      "  tensora chat model.gguf --system 'You answer in one sentence.'\n"
      "  echo 'What is 2 + 2?' | tensora chat model.gguf --quiet --temp 0");
  command->callback([settings, sampling] {
    settings->flags.validate();
    settings->model.chat_template = settings->flags.template_source();
    Chat(*settings, sampling->options()).talk();
  });
}

}  // namespace tensora::cli
