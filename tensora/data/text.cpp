#include "tensora/data/text.h"

#include <algorithm>

#include "tensora/io/mapped_file.h"
#include "tensora/ops/creation/empty.h"

namespace tensora::data {
namespace {

std::string_view text_of(const io::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

std::string read_text(const std::string& path) {
  return io::reading("read_text", path,
                     [&] { return std::string(text_of(*io::MappedFile::open(path))); });
}

TextLines::TextLines(const std::string& path) {
  const auto file = io::reading("TextLines", path, [&] { return io::MappedFile::open(path); });
  file_ = file;
  text_ = text_of(*file);
  for (size_t begin = 0; begin < text_.size();) {
    const size_t end = std::min(text_.find('\n', begin), text_.size());
    ends_.push_back(end);
    begin = end + 1;
  }
}

std::string_view TextLines::line(int64_t index) const {
  check(index >= 0 && index < size(), "TextLines: index ", index, " is out of range for ", size(),
        " lines");
  const size_t begin = index == 0 ? 0 : ends_[static_cast<size_t>(index) - 1] + 1;
  std::string_view line = text_.substr(begin, ends_[static_cast<size_t>(index)] - begin);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Example TextLines::get(int64_t index) const {
  const std::string_view text = line(index);
  return {from_blob(static_cast<const void*>(text.data()), {static_cast<int64_t>(text.size())},
                    {.dtype = kUInt8}, file_)};
}

}  // namespace tensora::data
