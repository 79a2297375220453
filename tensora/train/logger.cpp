#include "tensora/train/logger.h"

#include <chrono>

namespace tensora::train {

void Logger::text(int64_t, std::string_view, std::string_view) {}

void Logger::histogram(int64_t, std::string_view, const Tensor&) {}

double wall_seconds() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

}  // namespace tensora::train
