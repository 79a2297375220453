#pragma once

#include <memory>

#include "tensora/train/logger.h"

namespace tensora::train {

class AppendFile;

constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

/// Writes an event file that TensorBoard reads: scalars, texts and histograms. A folder holds one
/// such file; it is continued if it is there.
class TensorBoardLogger final : public Logger {
 public:
  explicit TensorBoardLogger(const std::string& folder);
  ~TensorBoardLogger() override;

  void scalars(int64_t step, const Scalars& values) override;
  void text(int64_t step, std::string_view tag, std::string_view text) override;
  void histogram(int64_t step, std::string_view tag, const Tensor& values) override;
  void rewind(int64_t step) override;

 private:
  void start_file();
  void add(int64_t step, std::string_view summary);

  std::unique_ptr<AppendFile> file_;
};

/// The checksum of a record in such a file: CRC-32C, rotated and shifted.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace tensora::train
