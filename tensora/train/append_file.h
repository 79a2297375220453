#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tensora::train {

/// A log on disk: pieces are added at its end, whole or not at all. What was added survives the
/// death of the process.
class AppendFile {
 public:
  /// Opens the file, or creates it with its folder's permissions.
  explicit AppendFile(std::string path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  /// Adds bytes; throws, and leaves the file as it was, if the disk is full.
  void append(std::string_view bytes);
  /// The whole contents.
  std::string read() const;
  /// Cuts the file after its first `size` bytes.
  void truncate(int64_t size);
  /// Replaces the contents in one step: a reader sees the old file or the new one.
  void replace(std::string_view bytes);

 private:
  void open();
  std::string temporary_path() const { return path_ + ".new"; }

  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

/// The length of the leading whole lines of `text` for which `keep` holds: what follows the first
/// line that it refuses, and a torn line at the end, are not counted.
int64_t kept_lines(std::string_view text, const std::function<bool(std::string_view)>& keep);

}  // namespace tensora::train
