// The command line of Tensora.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>

#include "commands.h"
#include "llama_names.h"
#include "spelling.h"
#include "tensora/base/check.h"
#include "tensora/dispatch/build_info.h"

namespace {

// CLI11 prints "--no-warmup{false}" for a flag that switches something off.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    for (size_t at; (at = name.find("{false}")) != std::string::npos;) name.erase(at, 7);
    return name;
  }
};

// The command that was being read when a mistake was found.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

int complain(const std::string& who, const std::string& what, int code) {
  std::fprintf(stderr, "%s: %s\n", who.c_str(), what.c_str());
  return code;
}

std::vector<std::string> names_of(const CLI::App& command, bool options) {
  std::vector<std::string> names;
  if (options) {
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  } else {
    for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(below->get_name());
  }
  return names;
}

// What is said about words that a command has no use for; empty if there are none. CLI11 lists
// them, the last one first, and of an unknown command only says that one is missing.
std::string tell_unexpected(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  if (words.empty()) return {};
  const bool is_option = words.front().size() > 1 && words.front()[0] == '-';
  const bool is_command = !is_option && !names_of(command, /*options=*/false).empty();
  if (words.front() == "--") return {};  // what stands behind it is missing
  if (!is_option && !is_command) return "'" + words.front() + "' was not expected";
  const std::string word = words.front().substr(0, words.front().find('='));
  const std::string meant = tensora::cli::nearest(word, names_of(command, is_option));
  return std::string("there is no ") + (is_option ? "option" : "command") + " '" + word + "'" +
         (meant.empty() ? "" : "; did you mean '" + meant + "'?");
}

// CLI11 takes an empty text for 0 (--temp "$UNSET"), the negative of a number for 2^64 less it, and
// what no number can hold for the largest one.
std::string mistake_in_number(const std::string& text, bool is_unsigned) {
  if (text.empty()) return "expected a number, got an empty text";
  if (is_unsigned && text[0] == '-') return "expected no negative number, got " + text;
  uint64_t value = 0;
  const char* const digits = text.data() + (text[0] == '-' || text[0] == '+' ? 1 : 0);
  const bool is_too_large = std::from_chars(digits, text.data() + text.size(), value).ec ==
                            std::errc::result_out_of_range;
  return is_too_large ? text + " is too large" : std::string();
}

void check_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    const bool is_unsigned = type.starts_with("UINT"), is_float = type.starts_with("FLOAT");
    if (!is_unsigned && !is_float && !type.starts_with("INT")) continue;
    option->check([=](const std::string& text) {
      return is_float && !text.empty() ? std::string() : mistake_in_number(text, is_unsigned);
    });
  }
  for (CLI::App* below : app.get_subcommands([](CLI::App*) { return true; })) check_numbers(*below);
}

// CLI11 says "--steps: At Most 1 required but received 2".
std::string tell_mistake(const CLI::ParseError& error) {
  constexpr std::string_view kRepeated = ": At Most 1 required but received ";
  std::string what = error.what();
  if (const size_t at = what.find(kRepeated); at != what.npos)
    what = what.substr(0, at) + " is given " + what.substr(at + kRepeated.size()) + " times";
  return what;
}

// A full disk is told; a reader that went away (`tensora inspect model.gguf | head`) knows.
int check_output(int code) {
  std::fflush(stdout);
  if (code != 0 || std::ferror(stdout) == 0) return code;
  pollfd out{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  if (poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0) return code;
  return complain("tensora", "standard output cannot be written to", 1);
}

// Whether --help was asked of a command that does not exist, which CLI11 answers with the help of
// the command above.
bool asks_about_nothing(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  return !words.empty() && !words.front().starts_with('-') &&
         !names_of(command, /*options=*/false).empty();
}

void parse(CLI::App& app, int count, char** arguments) {
  std::vector<std::string> words(arguments + std::min(count, 1), arguments + count);
  if (const std::string hint = tensora::cli::translate_llama_names(app, words); !hint.empty())
    throw tensora::cli::UsageError(hint);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the end
  app.parse(std::move(words));
}

int run(CLI::App& app, int count, char** arguments) {
  try {
    parse(app, count, arguments);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0 && !asks_about_nothing(innermost(app)))
      return app.exit(error);  // --help, --version
    const std::string who = full_name(innermost(app));
    std::string what = tell_unexpected(innermost(app));
    if (what.empty()) what = tell_mistake(error);
    if (what.back() == '.') what.pop_back();
    return complain(who, what + (what.back() == '?' ? " '" : "; '") + who + " --help' tells more",
                    2);
  } catch (const tensora::cli::EndWith& end) {
    return end.code;
  } catch (const tensora::cli::Interrupted& interrupted) {
    return interrupted.code;
  } catch (const tensora::cli::Failure&) {
    return 1;
  } catch (const tensora::cli::UsageError& error) {
    return complain(full_name(innermost(app)), error.what(), 2);
  } catch (const std::bad_alloc&) {
    return complain(full_name(innermost(app)), "the memory of this machine is exhausted", 1);
  } catch (const std::exception& error) {
    return complain(full_name(innermost(app)), error.what(), 1);
  }
}

// A file that is opened where standard error was closed (2>&-) would receive what is printed there.
void fill_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0)  // open() takes the lowest free number: this one
      (void)open(descriptor == STDOUT_FILENO ? "/dev/full" : "/dev/null", O_RDWR);
}

}  // namespace

int main(int count, char** arguments) {
  fill_standard_descriptors();
  // A reader that went away (`tensora info | head`) is an error of write, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a limit on the size of files
  CLI::App app("Tensora trains and runs neural networks.", "tensora");
  app.require_subcommand(1);
  app.set_version_flag(
      "--version", [] { return "tensora " + tensora::build_info().version; },
      "Print the version and exit");
  app.formatter(std::make_shared<HelpFormatter>());
  tensora::cli::add_run(app);
  tensora::cli::add_chat(app);
  tensora::cli::add_serve(app);
  tensora::cli::add_bench(app);
  tensora::cli::add_launch(app);
  tensora::cli::add_scale(app);
  tensora::cli::add_perplexity(app);
  tensora::cli::add_embed(app);
  tensora::cli::add_train(app);
  tensora::cli::add_plot(app);
  tensora::cli::add_stories(app);
  tensora::cli::add_tokenize(app);
  tensora::cli::add_pull(app);
  tensora::cli::add_inspect(app);
  tensora::cli::add_quantize(app);
  tensora::cli::add_convert(app);
  tensora::cli::add_plan(app);
  tensora::cli::add_jit(app);
  tensora::cli::add_frameworks(app);
  tensora::cli::add_info(app);
  tensora::cli::add_completion(app);
  app.footer(  // after the commands, which would inherit it
      "Start here:\n"
      "  tensora run MODEL -p 'Once upon a time'       continue a text\n"
      "  tensora chat MODEL                            talk to a model\n"
      "  tensora serve MODEL                           an OpenAI-compatible server, a chat page\n"
      "  tensora stories --out stories.txt             a text to learn from\n"
      "  tensora train lm --text stories.txt --out run\n"
      "  tensora plot run                              look at the curves\n"
      "'tensora COMMAND --help' explains a command.");
  check_numbers(app);
  return check_output(run(app, count, arguments));
}
