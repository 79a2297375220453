#pragma once

#include <CLI/CLI.hpp>
#include <csignal>

#include "tensora/base/check.h"

// The subcommands, a file each. A function adds its command to the program; what the command does
// runs when the command line has been read. It throws tensora::Error for what goes wrong.

namespace tensora::cli {

/// A mistake on the command line that only shows when it is carried out; exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs what only looks at the words of the command line: an Error in there is a mistake of these.
template <class Look>
auto as_usage(const Look& look) {
  try {
    return look();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

/// The command has said what there is to say and ends with this exit code.
struct EndWith {
  int code;
};

/// A signal ended the work, Ctrl-C unless given; exit code 128 + signal.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal = SIGINT)
      : std::runtime_error("interrupted"), code(128 + signal) {}
  int code;
};

/// Everything was said already; exit code 1.
class Failure : public std::runtime_error {
 public:
  Failure() : std::runtime_error("failed") {}
};

void add_bench(CLI::App& app);
void add_bench_serve(CLI::App& bench);
void add_chat(CLI::App& app);
void add_completion(CLI::App& app);
void add_convert(CLI::App& app);
void add_embed(CLI::App& app);
void add_frameworks(CLI::App& app);
void add_info(CLI::App& app);
void add_inspect(CLI::App& app);
void add_launch(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_plan(CLI::App& app);
void add_plot(CLI::App& app);
void add_pull(CLI::App& app);
void add_jit(CLI::App& app);
void add_quantize(CLI::App& app);
void add_run(CLI::App& app);
void add_scale(CLI::App& app);
void add_serve(CLI::App& app);
void add_stories(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_train(CLI::App& app);
void add_train_image(CLI::App& train);
void add_train_lm(CLI::App& train);

}  // namespace tensora::cli
