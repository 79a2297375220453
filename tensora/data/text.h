#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/data/dataset.h"

namespace tensora::data {

/// The contents of a file.
std::string read_text(const std::string& path);

/// The lines of a text file, without their ends (\n or \r\n); the file is not copied. An example is
/// {line}, uint8 of as many elements as the line has bytes.
class TextLines final : public Dataset {
 public:
  explicit TextLines(const std::string& path);
  Example get(int64_t index) const override;
  int64_t size() const override { return static_cast<int64_t>(ends_.size()); }
  /// Valid as long as this data set, or a copy of it, lives.
  std::string_view line(int64_t index) const;

 private:
  std::shared_ptr<void> file_;
  std::string_view text_;
  std::vector<size_t> ends_;  // where the line's end begins
};

}  // namespace tensora::data
