#include "targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tensora/base/check.h"

namespace tensora::fuzz {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::span<const Target> targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> list;
    for (const auto part : {model_targets(), text_targets(), file_targets()})
      list.insert(list.end(), part.begin(), part.end());
#ifdef TENSORA_HAS_SERVE
    for (const auto part : {serve_targets(), http_targets()})
      list.insert(list.end(), part.begin(), part.end());
#endif
    return list;
  }();
  return all;
}

const Target& find_target(std::string_view name) {
  std::string known;
  for (const Target& target : targets()) {
    if (target.name == name) return target;
    known += concat(known.empty() ? "" : ", ", target.name);
  }
  fail("fuzz: expected one of ", known, "; got '", name, "'");
}

void run_target(const Target& target, std::string_view input) {
  try {
    target.run(input);
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {  // NOLINT: refused, as it should be
  }
}

std::vector<std::string> files_in(const std::string& folder, std::string_view ending) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(TENSORA_TESTS "/") + folder))
    if (entry.path().string().ends_with(ending)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> contents;
  for (const auto& path : paths) contents.push_back(read_file(path));
  return contents;
}

MemoryFile::MemoryFile(std::string_view contents) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
  ensure(descriptor_ >= 0, "fuzz: no memory file");
  const auto written = write(descriptor_, contents.data(), contents.size());
  ensure(written == std::ssize(contents), "fuzz: a memory file is full");
}

MemoryFile::~MemoryFile() { close(descriptor_); }

std::string MemoryFile::path() const { return concat("/proc/self/fd/", descriptor_); }

std::string MemoryFile::contents() const { return read_file(path()); }

}  // namespace tensora::fuzz
