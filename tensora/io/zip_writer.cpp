#include "tensora/io/zip_writer.h"

#include "tensora/io/checksum.h"
#include "tensora/io/deflate.h"
#include "tensora/io/zip_format.h"

namespace tensora::io {
namespace {

using namespace zip;

constexpr uint64_t kAlignment = 64;
constexpr uint16_t kDate = 33;  // the first of January 1980: equal contents give equal archives

uint32_t field(uint64_t value) { return value >= kIn64 ? kIn64 : static_cast<uint32_t>(value); }

// The extra field of zip64, with the values that do not fit into 32 bits.
std::string zip64_extra(std::initializer_list<uint64_t> values) {
  std::string large, extra;
  for (uint64_t value : values)
    if (value >= kIn64) append_number(large, value);
  if (large.empty()) return extra;
  append_number(extra, kZip64Extra);
  append_number(extra, static_cast<uint16_t>(large.size()));
  return extra + large;
}

// An extra field that fills up to the next multiple of the alignment.
std::string padding(uint64_t position) {
  const uint64_t bytes = (kAlignment - (position + 4) % kAlignment) % kAlignment;
  std::string extra;
  append_number(extra, kPaddingExtra);
  append_number(extra, static_cast<uint16_t>(bytes));
  return extra.append(bytes, 'Z');
}

// What the header in front of an entry and the one in the directory have in common.
template <class Entry>
std::string common_fields(const Entry& entry, bool is_64) {
  std::string out;
  append_number(out, static_cast<uint16_t>(is_64 ? 45 : 20));  // the version that can read it
  append_number(out, kUtf8Flag);
  append_number(out, entry.method);
  append_number(out, uint16_t{0});
  append_number(out, kDate);
  append_number(out, entry.checksum);
  append_number(out, field(entry.packed_bytes));
  append_number(out, field(entry.bytes));
  append_number(out, static_cast<uint16_t>(entry.name.size()));
  return out;
}

}  // namespace

void ZipWriter::store(const std::string& name, ConstBytes contents, ConstBytes rest) {
  const uint64_t bytes = contents.size() + rest.size();
  add({name, kStored, crc32(rest, crc32(contents)), bytes, bytes, file_.position()}, contents,
      rest);
}

void ZipWriter::compress(const std::string& name, ConstBytes contents) {
  const std::vector<uint8_t> packed = deflate(contents);
  add({name, kDeflated, crc32(contents), packed.size(), contents.size(), file_.position()}, packed);
}

void ZipWriter::add(Entry entry, ConstBytes packed, ConstBytes rest) {
  check(entry.name.size() <= 0xffff, "the name of an entry has ", entry.name.size(), " bytes");
  // In front of the contents zip64 has both sizes or none.
  std::string extra;
  Entry shown = entry;
  const bool is_64 = entry.bytes >= kIn64 || entry.packed_bytes >= kIn64;
  if (is_64) {
    append_number(extra, kZip64Extra);
    append_number(extra, uint16_t{16});
    append_number(extra, entry.bytes);
    append_number(extra, entry.packed_bytes);
    shown.bytes = shown.packed_bytes = kIn64;
  }
  extra += padding(entry.header + kLocalHeaderBytes + entry.name.size() + extra.size());
  std::string header;
  append_number(header, kLocalHeader);
  header += common_fields(shown, is_64);
  append_number(header, static_cast<uint16_t>(extra.size()));
  file_.write(header.append(entry.name).append(extra));
  file_.write(packed);
  file_.write(rest);
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const uint64_t start = file_.position();
  for (const Entry& entry : entries_) {
    const std::string extra = zip64_extra({entry.bytes, entry.packed_bytes, entry.header});
    std::string header;
    append_number(header, kCentralHeader);
    append_number(header, uint16_t{45});
    header += common_fields(entry, !extra.empty());
    append_number(header, static_cast<uint16_t>(extra.size()));
    header.append(10, '\0');  // comment, disk, attributes
    append_number(header, field(entry.header));
    file_.write(header.append(entry.name).append(extra));
  }
  const uint64_t end = file_.position(), bytes = end - start, count = entries_.size();
  std::string tail;
  if (count >= 0xffff || start >= kIn64 || bytes >= kIn64) {
    append_number(tail, kEnd64);
    append_number(tail, kEnd64Bytes - 12);
    append_number(tail, uint16_t{45});
    append_number(tail, uint16_t{45});
    append_number(tail, uint64_t{0});  // this disk, and the directory's
    append_number(tail, count);
    append_number(tail, count);
    append_number(tail, bytes);
    append_number(tail, start);
    append_number(tail, kEnd64Locator);
    append_number(tail, uint32_t{0});
    append_number(tail, end);
    append_number(tail, uint32_t{1});
  }
  append_number(tail, kEnd);
  append_number(tail, uint32_t{0});
  append_number(tail, static_cast<uint16_t>(count >= 0xffff ? 0xffff : count));
  append_number(tail, static_cast<uint16_t>(count >= 0xffff ? 0xffff : count));
  append_number(tail, field(bytes));
  append_number(tail, field(start));
  append_number(tail, uint16_t{0});
  file_.write(tail);
}

}  // namespace tensora::io
