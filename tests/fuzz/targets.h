#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::fuzz {

/// A reader of what strangers wrote, as a fuzzer calls it. A bad input ends in an Error, which is
/// an answer; whatever else escapes, an InternalError too, is a finding.
struct Target {
  const char* name;
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();  // small valid inputs
};

std::span<const Target> targets();
/// Throws for a name that is not there, with a list of those that are.
const Target& find_target(std::string_view name);

/// Runs a target on an input; throws what is a finding.
void run_target(const Target& target, std::string_view input);

// The targets, by what they read.
std::span<const Target> file_targets();   // tensors, tables, images
std::span<const Target> model_targets();  // models, tokenizers
std::span<const Target> text_targets();   // templates, grammars, patterns
std::span<const Target> serve_targets();  // what clients of the server send; with TENSORA_HAS_SERVE
std::span<const Target> http_targets();   // HTTP itself, likewise

/// The files below the tests' folder that end so.
std::vector<std::string> files_in(const std::string& folder, std::string_view ending);

/// A file in memory, for readers that want a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const;
  std::string contents() const;

 private:
  int descriptor_;
};

}  // namespace tensora::fuzz
