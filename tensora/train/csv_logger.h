#pragma once

#include "tensora/train/append_file.h"
#include "tensora/train/logger.h"

namespace tensora::train {

/// A table with a row per step: `step,wall,loss,lr`. A name that is new gets a column at the end,
/// empty in the rows before; values of one step may arrive in several calls and then take several
/// rows.
class CsvLogger final : public Logger {
 public:
  explicit CsvLogger(std::string path);

  void scalars(int64_t step, const Scalars& values) override;
  void rewind(int64_t step) override;

 private:
  size_t column(const std::string& name);

  AppendFile file_;
  std::vector<std::string> columns_;
};

}  // namespace tensora::train
