#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensora/io/byte_reader.h"

namespace tensora::io {

/// Writes a file so that other readers see either what was there before or all of the new contents:
/// a temporary file in the same folder, made durable, then renamed, then the folder made durable.
/// Where something fails (a full disk, an exception before `commit`), the temporary file is removed
/// and the old file stays. A device or a pipe (/dev/stdout) is not replaced but written to.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(ConstBytes bytes);
  void write(std::string_view text) { write(bytes_of_text(text)); }
  uint64_t position() const { return position_; }
  void commit();

  /// Removes the temporary files in `folder` whose writers were killed.
  static void remove_abandoned(const std::string& folder);

 private:
  void flush();
  void write_out(ConstBytes bytes);
  [[noreturn]] void fail_with_errno(std::string_view action) const;

  std::string path_;       // symbolic links resolved: the link stays one
  std::string temporary_;  // empty where a device or a pipe is written to
  std::string buffer_;
  uint64_t position_ = 0;
  int descriptor_ = -1;
};

/// Makes `alias` another name of the file `path`, atomically; a copy where the file system has no
/// links.
void link_atomically(const std::string& path, const std::string& alias);

}  // namespace tensora::io
