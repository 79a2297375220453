#include "tensora/train/csv_logger.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "tensora/base/check.h"
#include "tensora/train/number_text.h"

namespace tensora::train {
namespace {

std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"\n\r") == name.npos) return name;
  std::string out = "\"";
  for (const char letter : name) {
    if (letter == '"') out += '"';
    out += letter == '\n' || letter == '\r' ? ' ' : letter;
  }
  return out + '"';
}

std::vector<std::string> split_row(std::string_view row) {
  std::vector<std::string> cells(1);
  bool inside = false;
  for (size_t i = 0; i < row.size(); ++i) {
    const bool doubled = inside && row[i] == '"' && i + 1 < row.size() && row[i + 1] == '"';
    if (doubled)
      cells.back() += row[i++];
    else if (row[i] == '"')
      inside = !inside;
    else if (row[i] == ',' && !inside)
      cells.emplace_back();
    else
      cells.back() += row[i];
  }
  return cells;
}

std::string join(const std::vector<std::string>& cells) {
  std::string out;
  for (const std::string& cell : cells) out += (out.empty() ? "" : ",") + cell;
  return out + '\n';
}

}  // namespace

CsvLogger::CsvLogger(std::string path) : file_(std::move(path)) {
  const std::string text = file_.read();
  const size_t end = text.find('\n');
  if (end == text.npos) {
    columns_ = {"step", "wall"};
    file_.truncate(0);
    file_.append(join(columns_));
    return;
  }
  columns_ = split_row(std::string_view(text).substr(0, end));
  check(columns_.size() >= 2 && columns_[0] == "step" && columns_[1] == "wall", file_.path(),
        ": expected a table that starts with the columns step and wall");
}

// A new column means a new heading, and so a new file; that happens a few times in a run.
size_t CsvLogger::column(const std::string& name) {
  const auto known = std::find(columns_.begin(), columns_.end(), name);
  if (known != columns_.end()) return static_cast<size_t>(known - columns_.begin());
  columns_.push_back(name);
  const std::string text = file_.read();
  std::vector<std::string> heading;
  for (const std::string& one : columns_) heading.push_back(quoted(one));
  std::string fresh = join(heading);
  std::string_view rows = std::string_view(text).substr(text.find('\n') + 1);
  for (size_t end = rows.find('\n'); end != rows.npos; end = rows.find('\n')) {
    fresh += concat(rows.substr(0, end), ",\n");
    rows.remove_prefix(end + 1);
  }
  file_.replace(fresh);
  return columns_.size() - 1;
}

void CsvLogger::scalars(int64_t step, const Scalars& values) {
  std::vector<std::pair<size_t, std::string>> cells;
  for (const auto& [name, value] : values) cells.emplace_back(column(name), exact_text(value));
  std::vector<std::string> row(columns_.size());
  row[0] = concat(step);
  row[1] = exact_text(wall_seconds());
  for (auto& [place, text] : cells) row[place] = std::move(text);
  file_.append(join(row));
}

void CsvLogger::rewind(int64_t last) {
  bool heading = true;
  file_.truncate(kept_lines(file_.read(), [&](std::string_view line) {
    if (std::exchange(heading, false)) return true;
    int64_t step = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
    return error == std::errc() && end != line.data() + line.size() && *end == ',' && step <= last;
  }));
}

}  // namespace tensora::train
