#pragma once

#include <string>
#include <vector>

#include "tensora/io/atomic_file.h"

namespace tensora::io {

/// Writes a zip archive, zip64 where it is needed. The contents of stored entries begin at
/// multiples of 64 bytes, so that they can be used where they are in a mapped file.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  /// The contents may come in two pieces.
  void store(const std::string& name, ConstBytes contents, ConstBytes rest = {});
  void compress(const std::string& name, ConstBytes contents);
  /// Writes the directory; nothing can be added afterwards.
  void finish();

 private:
  struct Entry {
    std::string name;
    uint16_t method;
    uint32_t checksum;
    uint64_t packed_bytes, bytes, header;
  };
  void add(Entry entry, ConstBytes packed, ConstBytes rest = {});

  AtomicFile& file_;
  std::vector<Entry> entries_;
};

}  // namespace tensora::io
