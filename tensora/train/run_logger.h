#pragma once

#include <memory>
#include <optional>

#include "tensora/train/logger.h"

namespace tensora::train {

struct RunLoggerOptions {
  bool jsonl = true;         // FOLDER/metrics.jsonl, which `tensora plot` reads
  bool csv = true;           // FOLDER/metrics.csv
  bool tensor_board = true;  // FOLDER/events.out.tfevents.…
  /// Continue the logs that are there after this step (-1: keep nothing of them); without it they
  /// must not be there.
  std::optional<int64_t> resume_after = std::nullopt;
};

/// The logs of a run, in its folder, in all formats at once.
class RunLogger final : public Logger {
 public:
  explicit RunLogger(std::string folder, const RunLoggerOptions& options = {});

  void scalars(int64_t step, const Scalars& values) override;
  void text(int64_t step, std::string_view tag, std::string_view text) override;
  void histogram(int64_t step, std::string_view tag, const Tensor& values) override;
  void rewind(int64_t step) override;

  const std::string& folder() const { return folder_; }
  /// Throws if the folder holds the logs of a run.
  static void check_fresh(const std::string& folder);
  /// Moves logs that hold any step after step 0 into FOLDER/old-logs-N and returns that folder's
  /// path; none if there are no such logs.
  static std::optional<std::string> set_aside(const std::string& folder);

 private:
  std::string folder_;
  std::vector<std::unique_ptr<Logger>> loggers_;
};

}  // namespace tensora::train
