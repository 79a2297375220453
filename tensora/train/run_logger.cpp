#include "tensora/train/run_logger.h"

#include <filesystem>
#include <system_error>

#include "tensora/base/check.h"
#include "tensora/train/csv_logger.h"
#include "tensora/train/jsonl_logger.h"
#include "tensora/train/tensor_board_logger.h"

namespace tensora::train {

RunLogger::RunLogger(std::string folder, const RunLoggerOptions& options)
    : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  check(!error, "RunLogger: the folder ", folder_, " cannot be created: ", error.message());
  for (const char* name : {"metrics.jsonl", "metrics.csv"})
    check(options.resume_after || !std::filesystem::exists(folder_ + "/" + name),
          "RunLogger: ", folder_, " already holds the logs of a run");
  if (options.jsonl) loggers_.push_back(std::make_unique<JsonlLogger>(folder_ + "/metrics.jsonl"));
  if (options.csv) loggers_.push_back(std::make_unique<CsvLogger>(folder_ + "/metrics.csv"));
  if (options.tensor_board) loggers_.push_back(std::make_unique<TensorBoardLogger>(folder_));
  if (options.resume_after) rewind(*options.resume_after);
}

void RunLogger::scalars(int64_t step, const Scalars& values) {
  for (const auto& logger : loggers_) logger->scalars(step, values);
}

void RunLogger::text(int64_t step, std::string_view tag, std::string_view text) {
  for (const auto& logger : loggers_) logger->text(step, tag, text);
}

void RunLogger::histogram(int64_t step, std::string_view tag, const Tensor& values) {
  for (const auto& logger : loggers_) logger->histogram(step, tag, values);
}

void RunLogger::rewind(int64_t step) {
  for (const auto& logger : loggers_) logger->rewind(step);
}

}  // namespace tensora::train
