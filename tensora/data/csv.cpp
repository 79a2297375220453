#include "tensora/data/csv.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "tensora/io/mapped_file.h"
#include "tensora/ops.h"

namespace tensora::data {
namespace {

/// Cuts a text into lines of cells.
class CsvReader {
 public:
  CsvReader(std::string_view text, char delimiter) : text_(text), delimiter_(delimiter) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark
  }

  /// The cells of the next line that is not empty; false at the end.
  bool next(std::vector<std::string>& cells) {
    size_t count = 0;
    while (at_ < text_.size()) {
      first_line_ = line_;
      count = 0;
      bool more = true;
      while (more) {
        if (count == cells.size()) cells.emplace_back();
        more = read_cell(cells[count++]);
      }
      if (count > 1 || !cells[0].empty()) break;
      count = 0;
    }
    cells.resize(count);
    return count > 0;
  }
  /// The number of the line that `next` gave, from 1 on; a quoted cell may reach over several.
  int64_t line() const { return first_line_; }

 private:
  // Whether another cell follows in the line.
  bool read_cell(std::string& cell) {
    cell.clear();
    if (at_ < text_.size() && text_[at_] == '"') {
      read_quoted(cell);
    } else {
      const size_t end =
          std::min(text_.find_first_of(std::string{delimiter_, '\n'}, at_), text_.size());
      cell = text_.substr(at_, end - at_);
      at_ = end;
      if (!cell.empty() && cell.back() == '\r' && at_is_line_end()) cell.pop_back();
    }
    if (at_ == text_.size()) return false;
    const char stop = text_[at_++];
    if (stop == '\n') ++line_;
    return stop == delimiter_;
  }

  // A quote within quotes is written twice.
  void read_quoted(std::string& cell) {
    const int64_t opened = line_;
    for (++at_;; ++at_) {
      check(at_ < text_.size(), "line ", opened, ": a quote is not closed");
      if (text_[at_] == '"' && (at_ + 1 == text_.size() || text_[at_ + 1] != '"')) break;
      if (text_[at_] == '"') ++at_;
      if (text_[at_] == '\n') ++line_;
      cell += text_[at_];
    }
    ++at_;
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    check(at_is_line_end() || text_[at_] == delimiter_, "line ", line_,
          ": something follows a closed quote");
  }

  bool at_is_line_end() const { return at_ == text_.size() || text_[at_] == '\n'; }

  std::string_view text_;
  char delimiter_;
  size_t at_ = 0;
  int64_t line_ = 1, first_line_ = 1;
};

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

double parse_cell(std::string_view cell, const CsvOptions& options, int64_t line, size_t column,
                  const std::string& name) {
  std::string_view text = trimmed(cell);
  if (text.empty() && options.missing) return *options.missing;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size(), "line ", line, ", column ",
        column + 1, " ('", name, "'): expected a number, got '",
        std::string_view(cell).substr(0, 80), "'", text.empty() ? "; see CsvOptions::missing" : "");
  return value;
}

// The places of the wanted columns in a line.
std::vector<size_t> chosen_columns(const std::vector<std::string>& names,
                                   const CsvOptions& options) {
  std::vector<size_t> chosen;
  for (const std::string& wanted : options.columns) {
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found == names.end()) {
      std::string known;
      for (const std::string& name : names) known += (known.empty() ? "'" : ", '") + name + "'";
      fail("there is no column '", wanted, "'; the columns are ", known);
    }
    chosen.push_back(static_cast<size_t>(found - names.begin()));
  }
  if (options.columns.empty())
    for (size_t i = 0; i < names.size(); ++i) chosen.push_back(i);
  return chosen;
}

CsvTable parse(std::string_view text, const CsvOptions& options) {
  check(tensora::is_floating_point(options.dtype) || is_integral(options.dtype),
        "expected a dtype of numbers, got ", options.dtype);
  CsvReader reader(text, options.delimiter);
  std::vector<std::string> cells, names;
  bool has_line = reader.next(cells);
  check(has_line, "the file is empty");
  for (size_t i = 0; i < cells.size(); ++i)
    names.push_back(options.header ? std::string(trimmed(cells[i])) : std::to_string(i));
  if (options.header) has_line = reader.next(cells);
  const std::vector<size_t> chosen = chosen_columns(names, options);
  std::vector<double> values;
  int64_t rows = 0;
  for (; has_line; has_line = reader.next(cells), ++rows) {
    check(cells.size() == names.size(), "line ", reader.line(), ": expected ", names.size(),
          " cells, got ", cells.size());
    for (const size_t column : chosen)
      values.push_back(parse_cell(cells[column], options, reader.line(), column, names[column]));
  }
  CsvTable table;
  for (const size_t column : chosen) table.columns.push_back(names[column]);
  table.values = tensor(values, {.dtype = kFloat64})
                     .reshape({rows, static_cast<int64_t>(chosen.size())})
                     .to(options.dtype);
  return table;
}

}  // namespace

Tensor CsvTable::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  check(found != columns.end(), "CsvTable: there is no column '", name, "'");
  return values.select(1, found - columns.begin());
}

CsvTable read_csv(const std::string& path, const CsvOptions& options) {
  return io::reading("read_csv", path, [&] {
    const auto file = io::MappedFile::open(path);
    const auto* const text = reinterpret_cast<const char*>(file->bytes().data());
    return parse({text, file->bytes().size()}, options);
  });
}

CsvTable parse_csv(std::string_view text, const CsvOptions& options) {
  return called_as("parse_csv", [&] { return parse(text, options); });
}

}  // namespace tensora::data
