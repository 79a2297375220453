// Trains a small LLaMA on stories, from nothing, while you watch; then exports it as a GGUF file
// and lets the inference engine tell a story with it, and says how fast. In a terminal it ends by
// serving that model. With --brief, for a few seconds; with --info, prints what the library is and
// found on this machine.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "tensora/base/thread_pool.h"
#include "tensora/dispatch/build_info.h"
#include "tensora/llm/backends/native_backend.h"
#include "tensora/llm/benchmark.h"
#include "tensora/llm/gguf/gguf_export.h"
#include "tensora/llm/model_file.h"
#include "tensora/train/chart.h"
#include "tensora/train/language_run.h"
#include "tensora/train/number_text.h"
#include "tensora/train/story.h"

using namespace tensora;

namespace {

constexpr uint64_t kSeed = 1;

train::LanguageConfig demo_config(bool brief) {
  train::LanguageConfig config{.preset = "tiny", .steps = 200, .batch = 16, .lr = 4e-3};
  config.validate_every = 50;
  config.validate_batches = 4;
  config.sample_tokens = 0;  // the stories before and after are shown here
  config.checkpoint_every = 100;
  if (brief) {
    config.vocab_size = 384;
    config.context = 64;
    config.width = 32;
    config.layers = 2;
    config.heads = 2;
    config.steps = 20;
    config.batch = 4;
    config.validate_every = 10;
    config.validate_batches = 2;
  }
  return config;
}

// A folder that is not there yet, so that nothing of the user's is lost.
std::string fresh_folder() {
  std::string folder = "tensora-demo";
  for (int number = 2; std::filesystem::exists(folder); ++number)
    folder = concat("tensora-demo-", number);
  return folder;
}

std::string story_by(const train::LanguageRun& run, uint64_t seed) {
  return run.write("", {.max_new_tokens = 400, .temperature = 0.7, .top_p = 0.95, .seed = seed});
}

// How well a few of the model's stories hold together, from 0 to 1.
double quality_of(const train::LanguageRun& run, int stories) {
  double sum = 0;
  for (int i = 0; i < stories; ++i)
    sum += train::judge_story(story_by(run, 100 + uint64_t(i))).mean();
  return sum / stories;
}

void write_plot(const std::string& folder) {
  const std::vector<train::RunHistory> runs = {train::read_run(folder)};
  const train::ChartOptions options{.title = "A small LLaMA learns to tell stories"};
  std::ofstream(folder + "/plot.svg") << train::chart_svg(runs, options);
  std::ofstream(folder + "/plot.html") << train::chart_html(runs, options);
}

// In order with the progress bar, which writes to standard error.
void print(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

// How fast a model reads and writes here.
void print_speeds(llm::FrameworkBackend& backend, int64_t tokens) {
  for (const llm::BenchTest& test :
       {llm::BenchTest{.prompt = tokens}, llm::BenchTest{.generate = tokens}}) {
    const llm::BenchSamples samples = llm::run_benchmark(backend, test, {.repetitions = 3});
    const llm::Spread speed = llm::spread_of(samples.speeds(test));
    print(concat("  ", test.name(), ": ", train::figure_text(speed.mean), " tokens per second"));
  }
}

// The trained model as a file that other programs read, too, and a story told from it.
void tell_from_gguf(const std::string& folder) {
  const std::string path = folder + "/stories.gguf";
  llm::export_gguf(llm::ModelFile::open(folder + "/model"), path);
  llm::NativeBackend backend{Device()};
  backend.load_model(path, {});
  backend.load_tokenizer(path);
  const auto start = backend.tokenizer()->find("<|endoftext|>");
  check(start.has_value(), path, ": the token that begins a story is missing");
  print("\nExported to " + path + ", which the inference engine loads and tells:\n");
  const llm::Completion story = backend.generate(
      {.tokens = {*start}, .sampling = {.temperature = 0.7, .seed = kSeed}, .max_tokens = 200});
  print("  " + story.text + "\n");
  print(concat("  ", story.usage.completion_tokens, " tokens, ",
               train::figure_text(story.predicted_per_second()), " per second, the first after ",
               train::figure_text(story.timings.first_token * 1e3), " ms"));
  print_speeds(backend, std::min<int64_t>(64, backend.model_info().positions / 2));
}

// Becomes `tensora serve` where somebody can stop it; returns where not, having said how.
void serve(const std::string& model, bool brief) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").replace_filename("tensora");
  const bool is_watched = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  if (brief || !is_watched || !std::filesystem::exists(program)) {
    print(concat("To talk to it in a browser: tensora serve ", model,
                 ", then open http://127.0.0.1:8080"));
    return;
  }
  print("\nNow it is served: open the address below in a browser. Ctrl-C ends it.");
  // Another server may have port 8080; a free one is printed.
  execl(program.c_str(), "tensora", "serve", model.c_str(), "--port", "0", "--no-log", nullptr);
  print("tensora serve could not be started");
}

int run(bool brief, const std::string& folder) {
  print("The grammar writes stories to learn from, such as:\n");
  print("  " + train::story(kSeed, 0) + "\n");
  train::LanguageRun model(
      demo_config(brief),
      {.folder = folder, .text = train::story_corpus(kSeed, brief ? 100 << 10 : 4 << 20)});
  print(concat("A LLaMA of ", train::figure_text(double(model.parameter_count())),
               " parameters will read ", train::figure_text(double(model.training_tokens())),
               " tokens of them, on ", get_num_threads(), " threads."));
  const int judged = brief ? 1 : 4;
  const double before = quality_of(model, judged);
  print("Before it has learned anything, it writes:\n");
  print("  " + story_by(model, kSeed).substr(0, 300) + " …\n");
  const train::TrainerOutcome outcome = model.train();
  if (outcome.interrupted) {
    print("Stopped; the checkpoint is in " + folder + ".");
    return 0;
  }
  write_plot(folder);
  print("\nNow it writes:\n");
  print("  " + story_by(model, kSeed) + "\n");
  print(concat("How well its stories hold together: ", train::figure_text(before), " before, ",
               train::figure_text(quality_of(model, judged)), " now; the grammar's own: 1.\n"));
  tell_from_gguf(folder);
  print(concat("\nThe curves are in ", folder, "/plot.html, checkpoints in ", folder,
               "/checkpoints, the model in ", folder, "/model."));
  print(
      "What to type next:\n"
      "  ./dev build && export PATH=$PWD/build/bin:$PATH\n"
      "  tensora stories --out stories.txt\n"
      "  tensora train lm --text stories.txt --out run          longer, and it gets better\n"
      "  tensora train lm --text YOUR.txt --out mine            on any text of yours\n"
      "  tensora run run/model -p 'Once upon a time'            let it tell\n"
      "  tensora bench run/model                                how fast is it?\n"
      "  tensora train lm --help");
  const bool has_learned = outcome.loss < (brief ? 7 : 3);
  if (has_learned) serve(folder + "/stories.gguf", brief);
  return has_learned ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try {
  bool brief = false;
  std::string folder;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--info") {
      print(build_info().to_string());
      return 0;
    }
    if (argument == "--brief") {
      brief = true;
    } else if (argument == "--out" && i + 1 < count) {
      folder = arguments[++i];
    } else {
      std::fprintf(stderr, "usage: tensora-demo [--brief] [--out FOLDER] [--info]\n");
      return 2;
    }
  }
  return run(brief, folder.empty() ? fresh_folder() : folder);
} catch (const std::exception& error) {
  std::fprintf(stderr, "tensora-demo: %s\n", error.what());
  return 1;
}
