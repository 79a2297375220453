#pragma once

#include "tensora/train/append_file.h"
#include "tensora/train/logger.h"

namespace tensora::train {

/// One JSON object per line: `{"step":10,"wall":1.7e9,"loss":2.25}`. Numbers read back exactly;
/// what is not finite is null. A text is `{"step":10,"wall":1.7e9,"tag":"sample","text":"Once …"}`.
class JsonlLogger final : public Logger {
 public:
  explicit JsonlLogger(std::string path) : file_(std::move(path)) {}

  void scalars(int64_t step, const Scalars& values) override;
  void text(int64_t step, std::string_view tag, std::string_view text) override;
  void rewind(int64_t step) override;

 private:
  AppendFile file_;
};

/// A text as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace tensora::train
