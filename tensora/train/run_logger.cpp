#include "tensora/train/run_logger.h"

#include <filesystem>
#include <system_error>

#include "tensora/base/check.h"
#include "tensora/train/csv_logger.h"
#include "tensora/train/jsonl_logger.h"
#include "tensora/train/run_history.h"
#include "tensora/train/tensor_board_logger.h"

namespace tensora::train {
namespace {

bool has_steps(const std::string& folder) {
  const std::string path = folder + "/metrics.jsonl";
  if (!std::filesystem::exists(path)) return false;
  try {
    for (const Curve& curve : read_run(path).curves)
      if (!curve.steps.empty() && curve.steps.back() > 0) return true;
    return false;
  } catch (const Error&) {
    return true;  // not readable as a log, but perhaps of use to its owner
  }
}

}  // namespace

RunLogger::RunLogger(std::string folder, const RunLoggerOptions& options)
    : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  check(!error, "RunLogger: the folder ", folder_, " cannot be created: ", error.message());
  if (!options.resume_after) check_fresh(folder_);
  if (options.jsonl) loggers_.push_back(std::make_unique<JsonlLogger>(folder_ + "/metrics.jsonl"));
  if (options.csv) loggers_.push_back(std::make_unique<CsvLogger>(folder_ + "/metrics.csv"));
  if (options.tensor_board) loggers_.push_back(std::make_unique<TensorBoardLogger>(folder_));
  if (options.resume_after) rewind(*options.resume_after);
}

void RunLogger::check_fresh(const std::string& folder) {
  for (const char* name : {"metrics.jsonl", "metrics.csv"})
    check(!std::filesystem::exists(folder + "/" + name), "RunLogger: ", folder,
          " already holds the logs of a run");
}

std::optional<std::string> RunLogger::set_aside(const std::string& folder) {
  namespace fs = std::filesystem;
  if (!has_steps(folder)) return {};
  std::string target;
  for (int number = 1; target.empty() || fs::exists(target); ++number)
    target = concat(folder, "/old-logs-", number);
  std::error_code error;
  fs::create_directory(target, error);
  std::vector<fs::path> logs;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name == "metrics.jsonl" || name == "metrics.csv" || name.starts_with(kEventFilePrefix))
      logs.push_back(entry.path());
  }
  for (const fs::path& log : logs)
    if (!error) fs::rename(log, fs::path(target) / log.filename(), error);
  check(!error, "RunLogger: the logs in ", folder, " cannot be moved to ", target, ": ",
        error.message());
  return target;
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
