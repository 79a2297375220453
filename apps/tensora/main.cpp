// The command line of Tensora.
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "commands.h"
#include "tensora/base/check.h"

namespace {

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

int run(CLI::App& app, int count, char** arguments) {
  try {
    app.parse(count, arguments);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::string who = full_name(innermost(app));
    std::string what = error.what();
    // Of an unknown command CLI11 only says that one is missing.
    const CLI::App& command = innermost(app);
    const bool has_commands =
        !command.get_subcommands([](const CLI::App*) { return true; }).empty();
    if (has_commands && !command.remaining().empty())
      what = "there is no command '" + command.remaining().front() + "'";
    if (!what.empty() && what.back() == '.') what.pop_back();
    return complain(who, what + "; '" + who + " --help' tells more", 2);
  } catch (const tensora::cli::Interrupted&) {
    return 130;
  } catch (const tensora::cli::UsageError& error) {
    return complain(full_name(innermost(app)), error.what(), 2);
  } catch (const std::exception& error) {
    return complain(full_name(innermost(app)), error.what(), 1);
  }
}

}  // namespace

int main(int count, char** arguments) {
  // A reader that went away (`tensora info | head`) is an error of write, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a limit on the size of files
  CLI::App app("Tensora trains and runs neural networks.", "tensora");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Start here:\n"
      "  tensora run MODEL -p 'Once upon a time'       continue a text\n"
      "  tensora chat MODEL                            talk to a model\n"
      "  tensora stories --out stories.txt             a text to learn from\n"
      "  tensora train lm --text stories.txt --out run\n"
      "  tensora plot run                              look at the curves\n"
      "'tensora COMMAND --help' explains a command.");
  tensora::cli::add_run(app);
  tensora::cli::add_chat(app);
  tensora::cli::add_bench(app);
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
  tensora::cli::add_info(app);
  tensora::cli::add_completion(app);
  return run(app, count, arguments);
}
