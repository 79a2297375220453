#pragma once

#include <string>
#include <string_view>
#include <vector>

/// The words of a command line, for the examples.
class Arguments {
 public:
  Arguments(int argc, char** argv) : words_(argv + 1, argv + argc) {}

  bool has(std::string_view name) const {
    for (const std::string& word : words_)
      if (word == name) return true;
    return false;
  }
  /// The word behind `name`.
  std::string value(std::string_view name, std::string otherwise) const {
    for (size_t i = 0; i + 1 < words_.size(); ++i)
      if (words_[i] == name) return words_[i + 1];
    return otherwise;
  }

 private:
  std::vector<std::string> words_;
};
