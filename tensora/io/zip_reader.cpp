#include "tensora/io/zip_reader.h"

#include <algorithm>

#include "tensora/io/checksum.h"
#include "tensora/io/deflate.h"
#include "tensora/io/unpack_limit.h"
#include "tensora/io/zip_format.h"

namespace tensora::io {
namespace {

using namespace zip;

struct Directory {
  uint64_t offset, bytes, count;
};

// The end record is followed by a comment, whose length it holds, and then by nothing.
uint64_t find_end(ConstBytes file) {
  check(file.size() >= kEndBytes, "it is too short for a zip archive");
  const uint64_t last = file.size() - kEndBytes;
  const uint64_t first = last - std::min<uint64_t>(last, 0xffff);
  for (uint64_t position = last;; --position) {
    ByteReader reader(file.subspan(position, kEndBytes));
    if (reader.read<uint32_t>() == kEnd) {
      reader.take(kEndBytes - 4 - 2);
      if (reader.read<uint16_t>() == last - position) return position;
    }
    check(position > first, "it is not a zip archive, or its end is missing");
  }
}

Directory find_directory(ConstBytes file) {
  const uint64_t end = find_end(file);
  ByteReader reader(file.subspan(end, kEndBytes));
  reader.take(4);
  const auto disk = reader.read<uint16_t>(), directory_disk = reader.read<uint16_t>();
  const auto here = reader.read<uint16_t>(), count = reader.read<uint16_t>();
  const auto bytes = reader.read<uint32_t>(), offset = reader.read<uint32_t>();
  uint64_t limit = end;
  Directory directory{offset, bytes, count};
  const bool is_64 = count == 0xffff || bytes == kIn64 || offset == kIn64;
  if (is_64 && end >= kEnd64LocatorBytes) {
    ByteReader locator(file.subspan(end - kEnd64LocatorBytes, kEnd64LocatorBytes));
    if (locator.read<uint32_t>() == kEnd64Locator) {
      locator.take(4);
      limit = locator.read<uint64_t>();
      ByteReader record(part_of(file, limit, kEnd64Bytes));
      check(record.read<uint32_t>() == kEnd64, "the zip64 end record is damaged");
      record.take(kEnd64Bytes - 4 - 4 * 8);
      const auto on_this_disk = record.read<uint64_t>();
      directory.count = record.read<uint64_t>();
      check(on_this_disk == directory.count, "archives of several volumes are not supported");
      directory.bytes = record.read<uint64_t>();
      directory.offset = record.read<uint64_t>();
    }
  } else {
    check(disk == 0 && directory_disk == 0 && here == count,
          "archives of several volumes are not supported");
  }
  check(directory.offset <= limit && directory.bytes <= limit - directory.offset &&
            directory.count <= directory.bytes / kCentralHeaderBytes,
        "the directory of the archive is damaged");
  return directory;
}

// The values that did not fit into 32 bits, in this order, each only if its field says so.
void read_extra(ConstBytes extra, ZipEntry& entry) {
  ByteReader reader(extra);
  while (reader.left() >= 4) {
    const auto id = reader.read<uint16_t>(), bytes = reader.read<uint16_t>();
    if (bytes > reader.left()) return;  // padding of some writers
    ByteReader values(reader.take(bytes));
    if (id != kZip64Extra) continue;
    for (uint64_t* field : {&entry.bytes, &entry.packed_bytes, &entry.header})
      if (*field == kIn64) *field = values.read<uint64_t>();
  }
}

}  // namespace

ZipReader::ZipReader(std::shared_ptr<MappedFile> file) : file_(std::move(file)) {
  const Directory directory = find_directory(file_->bytes());
  read_directory(directory.offset, directory.bytes, directory.count);
  for (size_t i = 0; i < entries_.size(); ++i) {
    locate(entries_[i], directory.offset);
    check(index_.emplace(entries_[i].name, i).second, "the name '", entries_[i].name,
          "' is in the archive twice");
  }
  check_overlaps(directory.offset);
  uint64_t unpacked = 0;
  for (const ZipEntry& entry : entries_)
    if (entry.method != kStored) unpacked += std::min(entry.bytes, UINT64_MAX - unpacked);
  check_unpacked("the archive", unpacked, file_->bytes().size());
}

void ZipReader::read_directory(uint64_t offset, uint64_t bytes, uint64_t count) {
  ByteReader reader(ConstBytes(file_->bytes()).subspan(offset, bytes));
  entries_.reserve(count);  // each has at least a header in the file
  for (uint64_t i = 0; i < count; ++i) {
    ByteReader header(reader.take(kCentralHeaderBytes));
    check(header.read<uint32_t>() == kCentralHeader, "the directory of the archive is damaged");
    header.take(4);
    const auto flags = header.read<uint16_t>();
    ZipEntry entry;
    entry.method = header.read<uint16_t>();
    header.take(4);  // date and time
    entry.checksum = header.read<uint32_t>();
    entry.packed_bytes = header.read<uint32_t>();
    entry.bytes = header.read<uint32_t>();
    const auto name = header.read<uint16_t>(), extra = header.read<uint16_t>();
    const auto comment = header.read<uint16_t>();
    header.take(8);  // disk and attributes
    entry.header = header.read<uint32_t>();
    entry.name = reader.text(name);
    read_extra(reader.take(extra), entry);
    reader.take(comment);
    check((flags & kEncryptedFlag) == 0, "the entry '", entry.name, "' is encrypted");
    entries_.push_back(std::move(entry));
  }
}

void ZipReader::locate(ZipEntry& entry, uint64_t end) const {
  const ConstBytes contents = ConstBytes(file_->bytes()).first(end);
  ByteReader header(part_of(contents, entry.header, kLocalHeaderBytes));
  check(header.read<uint32_t>() == kLocalHeader, "the entry '", entry.name, "' is damaged");
  header.take(22);
  const auto name = header.read<uint16_t>(), extra = header.read<uint16_t>();
  entry.data = entry.header + kLocalHeaderBytes + name + extra;
  part_of(contents, entry.data, entry.packed_bytes);
  check(entry.method == kStored || entry.method == kDeflated, "the entry '", entry.name,
        "' is compressed by method ", static_cast<int>(entry.method),
        "; stored and deflated are supported");
  check(entry.method != kStored || entry.bytes == entry.packed_bytes, "the entry '", entry.name,
        "' is stored in ", entry.packed_bytes, " bytes but says that it has ", entry.bytes);
}

// Entries that share their contents are how a small archive unpacks to petabytes.
void ZipReader::check_overlaps(uint64_t end) const {
  std::vector<const ZipEntry*> sorted;
  for (const ZipEntry& entry : entries_) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->header < b->header; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    const uint64_t next = i + 1 < sorted.size() ? sorted[i + 1]->header : end;
    check(sorted[i]->data + sorted[i]->packed_bytes <= next, "the entry '", sorted[i]->name,
          "' overlaps the one after it");
  }
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

OwnedBytes ZipReader::read(const ZipEntry& entry, bool verify) const {
  OwnedBytes result{file_->bytes().subspan(entry.data, entry.packed_bytes), file_};
  if (entry.method == kDeflated) {
    auto unpacked = std::make_shared<std::vector<uint8_t>>(inflate(result.bytes, entry.bytes));
    result = {*unpacked, unpacked};
  }
  check(!verify || crc32(result.bytes) == entry.checksum, "the entry '", entry.name,
        "' is damaged: its checksum is not the one that was saved");
  return result;
}

}  // namespace tensora::io
