#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "files.h"
#include "tensora/base/check.h"
#include "tensora/train/chart.h"

namespace tensora::cli {
namespace {

struct PlotOptions {
  std::vector<std::string> runs;
  std::string out, title;
  double smoothing = 0.9;
  bool log_y = false;
};

// Where the pictures of a run go: into its folder, also if the file in it was named.
std::string beside(const std::string& run) {
  namespace fs = std::filesystem;
  const fs::path path(run);
  return ((fs::is_directory(path) ? path : path.parent_path()) / "plot").string();
}

void plot(const PlotOptions& options) {
  std::vector<train::RunHistory> runs;
  for (const std::string& path : options.runs) {
    runs.push_back(train::read_run(path));
    check(!runs.back().curves.empty(), path, ": the log has no figures yet");
  }
  std::string title = options.title;
  for (const train::RunHistory& run : runs)
    if (options.title.empty()) title += (title.empty() ? "" : ", ") + run.name;
  const train::ChartOptions chart{
      .title = title, .smoothing = options.smoothing, .log_y = options.log_y};
  const std::string out = options.out.empty() ? beside(options.runs.front()) : options.out;
  write_file(out + ".svg", train::chart_svg(runs, chart));
  write_file(out + ".html", train::chart_html(runs, chart));
  std::printf("%s.svg\n%s.html\n", out.c_str(), out.c_str());
}

}  // namespace

void add_plot(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plot", "Draw the curves of one or several runs as SVG and HTML");
  auto options = std::make_shared<PlotOptions>();
  command->add_option("runs", options->runs, "Folders of runs, or metrics.jsonl files")
      ->required()
      ->type_name("RUN");
  command->add_option(
      "--out", options->out,
      "Write OUT.svg and OUT.html. Default: plot.svg and plot.html in the folder of the first run");
  command->add_option("--title", options->title, "Title. Default: the names of the runs");
  command
      ->add_option("--smoothing", options->smoothing, "The weight of the past in the thick lines")
      ->check(CLI::Range(0.0, 0.9999))
      ->capture_default_str();
  command->add_flag("--log-y", options->log_y, "Logarithmic values");
  command->footer(
      "Figures with the same first part (loss/train and loss/val) share a diagram. The page needs "
      "no\n"
      "network and follows the light or dark setting of the browser.\n\n"
      "Examples:\n"
      "  tensora plot run                              writes run/plot.svg and run/plot.html\n"
      "  tensora plot tiny small gpt2 --out compare    three runs in one picture");
  command->callback([options] { plot(*options); });
}

}  // namespace tensora::cli
