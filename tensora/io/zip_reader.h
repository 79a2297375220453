#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/io/mapped_file.h"

namespace tensora::io {

/// A file in a zip archive, as the archive's directory describes it.
struct ZipEntry {
  std::string name;
  uint16_t method = 0;  // 0 stored, 8 deflated
  uint32_t checksum = 0;
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t header = 0;  // where the entry begins in the archive
  uint64_t data = 0;    // where its contents begin
};

/// Bytes, and what keeps them alive.
struct OwnedBytes {
  Bytes bytes;
  std::shared_ptr<void> owner;
};

/// A zip archive (zip64 too) in a mapped file. The whole directory is checked when it is opened:
/// sizes, positions, overlaps, names that are there twice. Nothing of an entry's size is allocated
/// before its contents are there to fill it.
class ZipReader {
 public:
  explicit ZipReader(std::shared_ptr<MappedFile> file);
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Null if there is none of this name.
  const ZipEntry* find(std::string_view name) const;

  /// The contents: part of the mapping if the entry is stored, unpacked otherwise. With `verify`,
  /// its checksum is compared.
  OwnedBytes read(const ZipEntry& entry, bool verify) const;

 private:
  void read_directory(uint64_t offset, uint64_t bytes, uint64_t count);
  void locate(ZipEntry& entry, uint64_t end) const;
  void check_overlaps(uint64_t end) const;

  std::shared_ptr<MappedFile> file_;
  std::vector<ZipEntry> entries_;
  std::map<std::string_view, size_t> index_;  // by the names in entries_
};

}  // namespace tensora::io
