#include <cstdio>

#include "commands.h"
#include "tensora/dispatch/build_info.h"

namespace tensora::cli {

void add_info(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("info", "Show the version, the libraries in use and the devices");
  command->footer(
      "Example:\n  tensora info            for a bug report, or to see why a GPU is not used");
  command->callback([] {
    std::string text = build_info().to_string();
    if (text.empty() || text.back() != '\n') text += '\n';
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace tensora::cli
