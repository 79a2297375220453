#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "files.h"
#include "interrupt.h"
#include "model_options.h"
#include "sampling_flags.h"

namespace tensora::cli {
namespace {

struct ChatSettings {
  ModelOptions model;
  std::string system, load, template_file;
  int64_t tokens = -1;
};

// Lines of standard input. Ctrl-C while waiting gives an empty line, not the end.
class LineReader {
 public:
  enum class Result { line, interrupted, end };
  Result next(std::string& line) {
    while (true) {
      const size_t end = buffer_.find('\n');
      if (end != buffer_.npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Result::line;
      }
      char bytes[4096];
      const ssize_t count = ::read(0, bytes, sizeof(bytes));
      if (count < 0 && errno == EINTR) {
        if (!Interrupt::requested()) continue;
        buffer_.clear();
        return Result::interrupted;
      }
      if (count <= 0) {
        line = std::exchange(buffer_, {});
        return line.empty() ? Result::end : Result::line;
      }
      buffer_.append(bytes, static_cast<size_t>(count));
    }
  }

 private:
  std::string buffer_;
};

constexpr const char* kHelp =
    "  /help            this list\n"
    "  /bye             leave (also Ctrl-D)\n"
    "  /clear           forget the conversation, not the system prompt\n"
    "  /system [TEXT]   show or change what the model is told first, and begin anew\n"
    "  /retry           another answer to the last message\n"
    "  /undo            take the last message and its answer back\n"
    "  /history         show the conversation\n"
    "  /set NAME VALUE  temp, top-k, top-p, min-p, repeat-penalty, seed or tokens\n"
    "  /stats           tokens and speed of the last answer\n"
    "  /save FILE       write the conversation as JSON;  /load FILE  reads it\n"
    "A line that ends with \\ goes on with the next one. Ctrl-C stops the answer.\n";

class Chat {
 public:
  Chat(const ChatSettings& settings, llm::SamplingOptions sampling)
      : settings_(settings),
        sampling_(std::move(sampling)),
        loaded_(load_model(settings.model)),
        shows_prompt_(isatty(0) != 0 && !settings.model.quiet) {
    if (!settings.template_file.empty()) use_template(read_file(settings.template_file));
    engine_ = make_engine(loaded_, settings.model);
    if (!settings.system.empty()) set_system(settings.system);
    if (!settings.load.empty()) load(settings.load);
  }

  void talk() {
    greet();
    const Interrupt interrupt;
    LineReader lines;
    std::string line, text;
    while (true) {
      say(text.empty() ? "> " : ". ");
      const LineReader::Result result = lines.next(line);
      if (result == LineReader::Result::end) break;
      if (result == LineReader::Result::interrupted) {
        say("\n(/bye or Ctrl-D leaves)\n");
        text.clear();
        continue;
      }
      if (!line.empty() && line.back() == '\\') {
        text += line.substr(0, line.size() - 1) + "\n";
        continue;
      }
      text += line;
      if (!take(std::exchange(text, {}))) break;
    }
    say("\n");
  }

 private:
  void greet() const {
    say(concat(loaded_.summary.name, " on ", loaded_.framework, ", a context of ",
               engine_->options().context, " tokens; /help tells more\n"));
    if (const auto* chat = engine_->chat_template(); chat && !chat->notice().empty())
      std::fprintf(stderr, "note: %s\n", chat->notice().c_str());
  }
  // What only people read.
  void say(const std::string& text) const {
    if (!shows_prompt_) return;
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }
  void use_template(const std::string& source) {
    const auto text_of = [&](std::optional<int32_t> token) {
      return token ? loaded_.tokenizer->bytes_of(*token, {.special = true}) : std::string();
    };
    loaded_.chat.emplace(source, text_of(loaded_.tokenizer->bos()),
                         text_of(loaded_.tokenizer->eos()));
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
        return engine_->submit(
            {.messages = messages_, .sampling = sampling_, .max_tokens = settings_.tokens});
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
    if (last_.context_full)
      std::fprintf(stderr, "note: the context of %lld tokens is full; /clear begins anew\n",
                   static_cast<long long>(engine_->options().context));
    messages_.push_back({.role = "assistant", .content = last_.text});
  }

  void command(const std::string& text) {
    const size_t blank = text.find(' ');
    const std::string name = text.substr(0, blank);
    const std::string rest = blank == text.npos ? "" : text.substr(blank + 1);
    if (name == "/help") {
      std::fputs(kHelp, stderr);
    } else if (name == "/clear") {
      const bool has_system = !messages_.empty() && messages_[0].role == "system";
      messages_.resize(has_system ? 1 : 0);
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
    } else if (name == "/save" && !rest.empty()) {
      save(rest);
    } else if (name == "/load" && !rest.empty()) {
      load(rest);
    } else {
      fail("there is no command '", text, "'; /help lists them");
    }
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
      if (name == "temp")
        changed.temperature = value;
      else if (name == "top-k")
        changed.top_k = static_cast<int64_t>(value);
      else if (name == "top-p")
        changed.top_p = value;
      else if (name == "min-p")
        changed.min_p = value;
      else if (name == "repeat-penalty")
        changed.repeat_penalty = value;
      else if (name == "seed" && value >= 0)
        changed.seed = static_cast<uint64_t>(value);
      else if (name == "tokens" && value >= -1)
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

  void save(const std::string& path) const {
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
  bool shows_prompt_;
  std::unique_ptr<llm::Engine> engine_;
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
  command->add_option("--system", settings->system, "What the model is told first");
  command->add_option("--load", settings->load, "Go on with a conversation that /save wrote");
  command->add_option("--template", settings->template_file,
                      "A Jinja chat template instead of the model's own");
  command->add_option("-n,--tokens", settings->tokens, "At most so many tokens per answer")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 31));
  command->add_flag("-q,--quiet", settings->model.quiet, "Only the answers");
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
  command->callback([settings, sampling] { Chat(*settings, sampling->options()).talk(); });
}

}  // namespace tensora::cli
