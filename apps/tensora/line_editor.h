#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tensora::cli {

/// Reads lines from standard input. On a terminal they can be edited: arrow keys, Home and End,
/// Emacs' control keys, pasting of several lines, and a history of this program's lines. Elsewhere
/// lines are read as they come.
class LineEditor {
 public:
  /// `edits`: standard input and standard error are a terminal that knows escape sequences.
  explicit LineEditor(bool edits) : edits_(edits) {}
  /// Whether this process runs on such a terminal.
  static bool can_edit();
  bool edits() const { return edits_; }

  enum class Result { line, interrupted, end };
  /// The next line without its end. Ctrl-C gives `interrupted`; Ctrl-D on an empty line, or the end
  /// of the input, gives `end`. The prompt is written to standard error where lines are edited.
  Result read(const std::string& prompt, std::string& line);
  /// Arrow keys bring this line back.
  void remember(const std::string& line);

 private:
  enum class Key { up, down, left, right, home, end, erase, word_left, word_right, paste, none };

  Result read_plain(std::string& line);
  Result edit(const std::string& prompt, std::string& line);
  bool next_byte(char& byte);
  Key escape();
  /// False: the line is finished, with `result`.
  bool take_control(char byte, Result& result);
  void take_key(Key key);
  void paste();
  void insert(char byte);
  void erase(size_t from, size_t to);
  void browse(int step);
  size_t before(size_t at) const;
  size_t after(size_t at) const;
  size_t word_before(size_t at) const;
  size_t word_after(size_t at) const;
  void draw(const std::string& prompt);

  bool edits_;
  std::string buffer_;  // bytes that were read and belong to later lines
  std::vector<std::string> history_;
  // Of the line that is being edited:
  std::string text_, draft_;  // draft_: what was typed before the history was browsed
  size_t cursor_ = 0, place_ = 0;
  int cursor_row_ = 0;  // below the prompt's first row, as drawn
};

}  // namespace tensora::cli
