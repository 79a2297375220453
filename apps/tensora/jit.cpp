#include "tensora/jit/kernel_store.h"

#include <algorithm>
#include <cstdio>
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
}

}  // namespace tensora::cli
