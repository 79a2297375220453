#include "tests/suite/report.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace tensora::suite {
namespace {

std::string_view name(Outcome outcome) {
  constexpr std::string_view names[] = {"passed", "failed", "skipped"};
  return names[static_cast<size_t>(outcome)];
}

std::string label(const Result& result) {
  return concat(result.op, "/", result.sample, " ", result.dtype, " ", name(result.mode));
}

// Sanitizers want the fatal signals for themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kNamesCrashes = false;
#else
constexpr bool kNamesCrashes = true;
#endif

// A crash cannot be counted, but it can say where it happened.
char running_check[256] = "";

void name_crashed_check(int signal) {
  constexpr char text[] = "\ntensora-ops: crashed in ";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  written = write(STDERR_FILENO, running_check, strnlen(running_check, sizeof running_check));
  written = write(STDERR_FILENO, "\n", 1);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (letter == '\n')
      result += "\\n";
    else if (static_cast<unsigned char>(letter) >= 0x20)
      result += letter;
  }
  return result + '"';
}

}  // namespace

Report::Report() : terminal_(isatty(STDERR_FILENO) != 0) {
  if (!kNamesCrashes) return;
  for (int fatal : {SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGABRT}) signal(fatal, name_crashed_check);
}

void Report::run(Result what, const std::function<std::string()>& body) {
  std::snprintf(running_check, sizeof running_check, "%s", label(what).c_str());
  show_progress(what);
  const auto begin = std::chrono::steady_clock::now();
  try {
    what.message = body();
  } catch (const std::exception& error) {
    what.outcome = Outcome::failed;
    what.message = error.what();
  }
  what.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  running_check[0] = '\0';
  add(std::move(what));
}

void Report::skip(Result what, const std::string& reason) {
  what.outcome = Outcome::skipped;
  what.message = reason;
  add(std::move(what));
}

void Report::add(Result result) {
  if (result.outcome == Outcome::failed) {
    if (terminal_) std::fprintf(stderr, "\r\033[K");
    std::printf("FAILED %s\n       %s\n", label(result).c_str(), result.message.c_str());
    std::fflush(stdout);
  }
  ++counts_[static_cast<size_t>(result.outcome)];
  results_.push_back(std::move(result));
}

void Report::show_progress(const Result& current) const {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\033[K%zu checks, %zu failed: %.60s", results_.size(),
               counts_[static_cast<size_t>(Outcome::failed)], label(current).c_str());
}

void Report::print_summary() const {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
  struct Row {
    size_t counts[3] = {};
    double seconds = 0;
  };
  std::map<Mode, Row> rows;
  for (const Result& result : results_) {
    Row& row = rows[result.mode];
    ++row.counts[static_cast<size_t>(result.outcome)];
    row.seconds += result.seconds;
  }
  for (const auto& [mode, row] : rows)
    std::printf("%-12s %6zu passed %6zu failed %6zu skipped %8.1f s\n",
                std::string(name(mode)).c_str(), row.counts[0], row.counts[1], row.counts[2],
                row.seconds);
  std::printf("%zu passed, %zu failed", counts_[0], counts_[1]);
  if (counts_[2] != 0) std::printf(", %zu skipped", counts_[2]);
  std::printf("\n");
}

void Report::write_json(const std::string& path, const Options& options) const {
  std::ofstream file(path);
  file << "{\"device\": " << quoted(to_string(options.device)) << ", \"seed\": " << options.seed
       << ", \"passed\": " << counts_[0] << ", \"failed\": " << counts_[1]
       << ", \"skipped\": " << counts_[2] << ", \"checks\": [";
  const char* separator = "\n";
  for (const Result& result : results_) {
    file << separator << "{\"op\": " << quoted(result.op) << ", \"case\": " << quoted(result.sample)
         << ", \"dtype\": " << quoted(result.dtype) << ", \"mode\": \"" << name(result.mode)
         << "\", \"outcome\": \"" << name(result.outcome) << "\", \"seconds\": " << result.seconds
         << ", \"message\": " << quoted(result.message) << "}";
    separator = ",\n";
  }
  file << "\n]}\n";
  file.close();
  check(file.good(), "--json: '", path, "' could not be written");
}

}  // namespace tensora::suite
