#include "tensora/jit/kernel_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "commands.h"

namespace tensora::cli {
namespace {

std::vector<jit::StoreEntry> entries() {
  const jit::KernelStore& store = jit::kernel_store();
  check(store.refusal().empty(), "the kernel store is not used: ", store.refusal());
  std::vector<jit::StoreEntry> all = store.list();
  std::sort(all.begin(), all.end(), [](const jit::StoreEntry& a, const jit::StoreEntry& b) {
    return a.used != b.used ? a.used > b.used : a.key < b.key;
  });
  return all;
}

void print_stats() {
  const auto all = entries();
  uint64_t bytes = 0;
  for (const jit::StoreEntry& entry : all) bytes += entry.bytes;
  const jit::KernelStore::Options& options = jit::kernel_store().options();
  std::printf("folder   %s\nkernels  %zu\nsize     %.2f MB of %.0f MB\n", options.folder.c_str(),
              all.size(), static_cast<double>(bytes) / 1e6,
              static_cast<double>(options.limit) / 1e6);
  if (!options.shared.empty()) std::printf("shared   %s\n", options.shared.c_str());
}

void print_list() {
  for (const jit::StoreEntry& entry : entries()) {
    const auto kernel = jit::kernel_store().find(entry.key);
    std::printf("%s  %7.1f KB  %s\n", entry.key.c_str(), static_cast<double>(entry.bytes) / 1e3,
                kernel ? kernel->description.c_str() : "damaged");
  }
}

// A key may be shortened to what distinguishes it.
void show(const std::string& start) {
  std::vector<std::string> found;
  for (const jit::StoreEntry& entry : entries())
    if (entry.key.starts_with(start)) found.push_back(entry.key);
  check(!found.empty(), "there is no kernel whose key begins with '", start, "'");
  check(found.size() == 1, found.size(), " kernels have keys that begin with '", start, "'");
  const auto kernel = jit::kernel_store().find(found[0]);
  check(kernel.has_value(), "kernel ", found[0], " is damaged; `tensora jit verify` removes it");
  std::printf("// %s\n// %s\n// %zu bytes of machine code, compiled in %.1f ms\n%s",
              found[0].c_str(), kernel->description.c_str(), kernel->code.size(),
              static_cast<double>(kernel->compile_microseconds) / 1e3, kernel->text.c_str());
}

void verify() {
  const size_t all = entries().size();
  const std::vector<std::string> damaged = jit::kernel_store().verify();
  for (const std::string& key : damaged) std::printf("removed %s: damaged\n", key.c_str());
  std::printf("%zu of %zu kernels are sound\n", all - damaged.size(), all);
}

// Runs a command, with at most `fuel` fused groups unless that is negative; returns whether it
// succeeded.
bool succeeds(const std::vector<std::string>& command, int64_t fuel) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const std::string limit = std::to_string(fuel);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  check(child >= 0, "cannot start a process: ", std::strerror(errno));
  if (child == 0) {
    if (fuel >= 0) ::setenv("TENSORA_JIT_FUEL", limit.c_str(), 1);
    ::execvp(words[0], words.data());
    std::fprintf(stderr, "%s: %s\n", words[0], std::strerror(errno));
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) check(errno == EINTR, "waitpid failed");
  check(!WIFEXITED(status) || WEXITSTATUS(status) != 127, "there is no program '", command[0], "'");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The first fused group with which the command fails.
void bisect(const std::vector<std::string>& command) {
  check(succeeds(command, 0), "the command fails without fused kernels too: TENSORA_JIT_FUEL=0");
  check(!succeeds(command, -1), "the command succeeds: there is nothing to look for");
  constexpr int64_t kMostGroups = int64_t{1} << 20;
  int64_t good = 0, bad = 1;
  while (succeeds(command, bad)) {
    good = bad;
    bad *= 2;
    check(bad <= kMostGroups, "the command succeeds with the first ", good, " fused groups");
  }
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (succeeds(command, middle) ? good : bad) = middle;
  }
  succeeds(command, bad);  // once more: the library names the last group on standard error
  std::printf("group %lld is the first with which the command fails (TENSORA_JIT_FUEL=%lld)\n",
              static_cast<long long>(bad), static_cast<long long>(bad));
}

// Runs a command so that its kernels are in the store afterwards.
void warm(const std::vector<std::string>& command) {
  const size_t before = entries().size();
  check(succeeds(command, -1), "the command failed");
  const size_t after = entries().size();
  std::printf("%zu kernels were added, %zu are in the store\n", after > before ? after - before : 0,
              after);
}

void add_commands(CLI::App& jit) {
  const auto add = [&](const char* name, const char* help,
                       void (*run)(const std::vector<std::string>&)) {
    auto words = std::make_shared<std::vector<std::string>>();
    CLI::App* const command = jit.add_subcommand(name, help);
    command->add_option("program", *words, "The program and its arguments, after --")->required();
    command->callback([words, run] { run(*words); });
  };
  add("warm", "Run a program and keep its kernels: jit warm -- PROGRAM ...", warm);
  add("bisect", "Find the first fused kernel with which a program fails: jit bisect -- PROGRAM ...",
      bisect);
}

}  // namespace

void add_jit(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("jit", "Show and clean the store of compiled kernels");
  command->require_subcommand(1);
  command->add_subcommand("stats", "Count the kernels and their size")->callback(print_stats);
  command->add_subcommand("list", "List the kernels, the most recently used first")
      ->callback(print_list);
  auto key = std::make_shared<std::string>();
  CLI::App* const one = command->add_subcommand("show", "Print a kernel's CUDA text");
  one->add_option("key", *key, "The key, or the beginning of it")->required();
  one->callback([key] { show(*key); });
  command->add_subcommand("verify", "Check every kernel and remove damaged ones")->callback(verify);
  command->add_subcommand("clear", "Remove all kernels")->callback([] {
    entries();
    std::printf("removed %zu kernels\n", jit::kernel_store().clear());
  });
  add_commands(*command);
}

}  // namespace tensora::cli
