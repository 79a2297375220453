#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tensora::cli {

struct DownloadOptions {
  std::string address, path;
  /// What the file must have; empty: what the server says, where it says so (`X-Linked-Etag`, as
  /// Hugging Face does).
  std::string sha256 = {};
  /// Throws if the complete file is not what it should be; called before the file gets its name.
  std::function<void(const std::string& file)> validate = nullptr;
  int attempts = 5;  // before a broken connection is an error
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
};

struct Downloaded {
  uint64_t bytes = 0, resumed_from = 0;
  std::string sha256 = {};
  bool checked = false;  // against a sum that was known beforehand
};

/// Fetches a file through libcurl. Until it is complete, has the right checksum and is valid, it is
/// called PATH.part; a later call goes on where an earlier one stopped, if the server still has the
/// same file. Throws where something fails, and says what is left of it. Web pages are refused, and
/// so is a file of which nobody can tell whether it is complete.
Downloaded download(const DownloadOptions& options);

}  // namespace tensora::cli
