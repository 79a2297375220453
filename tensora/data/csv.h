#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/core/tensor.h"

namespace tensora::data {

struct CsvOptions {
  bool header = true;  // the first line has the names of the columns
  char delimiter = ',';
  /// The columns wanted, in this order; all if empty. Others may hold anything.
  std::vector<std::string> columns = {};
  DType dtype = kFloat32;  // numbers are read as float64 first
  /// What an empty cell means; without it, an empty cell is an error.
  std::optional<double> missing = std::nullopt;
};

/// A table of numbers.
struct CsvTable {
  std::vector<std::string> columns;  // "0", "1", … where the file has no header
  Tensor values;                     // [rows, columns]

  /// One column, by its name: [rows].
  Tensor column(std::string_view name) const;
};

/// Reads a CSV file: cells may be quoted, lines may end in \n or \r\n, empty lines are skipped.
/// Throws, with line and column, where a cell is not a number or a line has too many or too few.
CsvTable read_csv(const std::string& path, const CsvOptions& options = {});
/// The same for a text.
CsvTable parse_csv(std::string_view text, const CsvOptions& options = {});

}  // namespace tensora::data
