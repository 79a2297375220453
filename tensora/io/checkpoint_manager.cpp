#include "tensora/io/checkpoint_manager.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "tensora/io/atomic_file.h"
#include "tensora/io/mapped_file.h"
#include "tensora/io/snapshot.h"

namespace tensora::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kEnding = ".pt";
constexpr std::string_view kFormat = "tensora training checkpoint";
constexpr size_t kDigits = 12;  // so that names sort as the steps do

Checkpoint read_checkpoint(const std::string& path, const LoadOptions& options) {
  const Value file = load_pytorch(path, options);
  return reading("CheckpointManager", path, [&] {
    check(file.is_dict() && file.contains(Value::Key("format")) && file.at("format").is_string() &&
              file.at("format").to_string() == kFormat,
          "it is not a training checkpoint");
    Checkpoint checkpoint;
    checkpoint.step = file.at("step").to_int();
    if (!file.at("metric").is_none()) checkpoint.metric = file.at("metric").to_double();
    checkpoint.state = file.at("state");
    checkpoint.path = path;
    return checkpoint;
  });
}

}  // namespace

CheckpointManager::CheckpointManager(std::string folder, const CheckpointOptions& options)
    : folder_(std::move(folder)), options_(options) {
  check(options.keep_last >= 0, "CheckpointManager: keep_last must not be negative, got ",
        options.keep_last);
  std::error_code error;
  fs::create_directories(folder_, error);
  check(fs::is_directory(folder_, error), "CheckpointManager: the folder '", folder_,
        "' cannot be created: ", error.message());
  AtomicFile::remove_abandoned(folder_);
}

CheckpointManager::~CheckpointManager() {
  if (writer_.joinable()) writer_.join();
}

std::string CheckpointManager::path_of(int64_t step) const {
  const std::string digits = std::to_string(step);
  const size_t zeros = kDigits - std::min(kDigits, digits.size());
  return concat(folder_, "/", kPrefix, std::string(zeros, '0'), digits, kEnding);
}

std::vector<int64_t> CheckpointManager::listed_steps() const {
  std::vector<int64_t> steps;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix) || !name.ends_with(kEnding)) continue;
    int64_t step = -1;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    // Only names that this class gives: `step-12-copy.pt` is the user's.
    if (step >= 0 && fs::path(path_of(step)).filename() == name) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<int64_t> CheckpointManager::steps() {
  wait();
  return listed_steps();
}

void CheckpointManager::wait() {
  if (writer_.joinable()) writer_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CheckpointManager::save(int64_t step, const Value& state, std::optional<double> metric) {
  wait();
  check(step >= 0, "CheckpointManager: the step must not be negative, got ", step);
  Value contents = Value::dict();
  contents["format"] = std::string(kFormat);
  contents["version"] = 1;
  contents["step"] = step;
  contents["metric"] = metric ? Value(*metric) : Value();
  contents["state"] = options_.background ? snapshot(state) : state;
  if (!options_.background) return write(step, contents, metric);
  writer_ = std::thread([this, step, contents = std::move(contents), metric] {
    try {
      write(step, contents, metric);
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

void CheckpointManager::write(int64_t step, const Value& contents, std::optional<double> metric) {
  save_pytorch(contents, path_of(step));
  if (metric && options_.keep_best) keep_if_best(step, *metric);
  remove_old(step);
}

void CheckpointManager::keep_if_best(int64_t step, double metric) {
  if (std::isnan(metric)) return;
  if (!best_metric_ && fs::exists(best_path())) {
    try {
      best_metric_ = read_checkpoint(best_path(), {}).metric;
    } catch (const Error&) {
      // A damaged file is the best of nothing: this one replaces it.
    }
  }
  const bool better = !best_metric_ ||
                      (options_.higher_is_better ? metric > *best_metric_ : metric < *best_metric_);
  if (!better) return;
  link_atomically(path_of(step), best_path());
  best_metric_ = metric;
}

void CheckpointManager::remove_old(int64_t newest) const {
  if (options_.keep_last == 0) return;
  std::vector<int64_t> steps = listed_steps();
  std::erase_if(steps, [&](int64_t step) { return step > newest; });
  const size_t keep = std::min(steps.size(), static_cast<size_t>(options_.keep_last));
  steps.resize(steps.size() - keep);
  std::error_code ignored;
  for (int64_t step : steps) fs::remove(path_of(step), ignored);
}

std::optional<Checkpoint> CheckpointManager::latest(const LoadOptions& options) {
  const std::vector<int64_t> present = steps();
  std::vector<std::string> skipped;
  for (auto step = present.rbegin(); step != present.rend(); ++step) {
    try {
      Checkpoint checkpoint = read_checkpoint(path_of(*step), options);
      checkpoint.skipped = std::move(skipped);
      return checkpoint;
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const Error& error) {
      skipped.emplace_back(error.what());
    }
  }
  check(present.empty(), "CheckpointManager: none of the ", present.size(), " checkpoints in '",
        folder_, "' can be loaded; the newest: ", skipped.empty() ? "" : skipped.front());
  return {};
}

std::optional<Checkpoint> CheckpointManager::best(const LoadOptions& options) {
  wait();
  if (!fs::exists(best_path())) return {};
  return read_checkpoint(best_path(), options);
}

}  // namespace tensora::io
