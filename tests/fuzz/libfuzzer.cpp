// libFuzzer's entries: tensora-fuzz TARGET [FOLDER...] [-max_total_time=60 ...]. The folders hold
// inputs; new ones are added to the first. `tensora-fuzz --list` names the targets, and
// `tensora-fuzz TARGET --seeds FOLDER` writes a target's small valid inputs.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "targets.h"

namespace {

const tensora::fuzz::Target* chosen = nullptr;

void write_seeds(const std::string& folder) {
  std::filesystem::create_directories(folder);
  int count = 0;
  for (const std::string& seed : chosen->seeds())
    std::ofstream(folder + "/seed" + std::to_string(count++), std::ios::binary) << seed;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  const std::string_view first = *count > 1 ? (*arguments)[1] : "--list";
  if (first == "--list") {
    for (const auto& target : tensora::fuzz::targets()) std::puts(target.name);
    std::exit(0);
  }
  try {
    chosen = &tensora::fuzz::find_target(first);
    if (*count == 4 && std::string_view((*arguments)[2]) == "--seeds") {
      write_seeds((*arguments)[3]);
      std::exit(0);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(2);
  }
  (*arguments)[1] = (*arguments)[0];  // libFuzzer sees the rest
  ++*arguments;
  --*count;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensora::fuzz::run_target(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
