#include "line_editor.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "interrupt.h"
#include "tensora/base/utf8.h"

namespace tensora::cli {
namespace {

constexpr size_t kMostHistory = 1000;
constexpr const char* kPasteOn = "\x1b[?2004h";
constexpr const char* kPasteOff = "\x1b[?2004l";

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

termios normal_mode{};  // read by the handler of signals

void restore_and_die(int signal) {
  tcsetattr(STDIN_FILENO, TCSANOW, &normal_mode);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Gives single keys while it lives, and puts the terminal back afterwards, also where the program
/// is ended by a signal.
class RawMode {
 public:
  RawMode() {
    tcgetattr(STDIN_FILENO, &normal_mode);
    raw_ = normal_mode;
    raw_.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
    raw_.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    raw_.c_cc[VMIN] = 1;
    raw_.c_cc[VTIME] = 0;
    struct sigaction action {};
    action.sa_handler = restore_and_die;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, &before_term_);
    sigaction(SIGHUP, &action, &before_hup_);
    enter();
  }
  ~RawMode() {
    leave();
    sigaction(SIGTERM, &before_term_, nullptr);
    sigaction(SIGHUP, &before_hup_, nullptr);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

  /// Stops the program, as Ctrl-Z does; returns when it goes on.
  void suspend() const {
    leave();
    std::raise(SIGTSTP);
    enter();
  }

 private:
  void enter() const {
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw_);
    put(kPasteOn);
  }
  static void leave() {
    put(kPasteOff);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &normal_mode);
  }

  termios raw_{};
  struct sigaction before_term_ {
  }, before_hup_{};
};

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Columns that a character takes: 0 for marks that combine with the one before, 2 for wide ones.
int columns_of(uint32_t code) {
  const auto within = [&](uint32_t first, uint32_t last) { return code >= first && code <= last; };
  if (within(0x300, 0x36F) || within(0x200B, 0x200F) || within(0xFE00, 0xFE0F)) return 0;
  const bool is_wide = within(0x1100, 0x115F) || within(0x2E80, 0xA4CF) || within(0xAC00, 0xD7A3) ||
                       within(0xF900, 0xFAFF) || within(0xFE30, 0xFE6F) || within(0xFF00, 0xFF60) ||
                       within(0xFFE0, 0xFFE6) || within(0x1F300, 0x1FAFF) ||
                       within(0x20000, 0x3FFFD);
  return is_wide ? 2 : 1;
}

/// Where the cursor is after a text was written.
struct Place {
  int row = 0, column = 0;
  void advance(int columns, int width) {
    if (column + columns > width) {
      ++row;
      column = 0;
    }
    column += columns;
  }
};

// What a terminal shows of a character: control characters, which it would obey, are replaced.
std::string_view shown(const CodePoint& point, std::string_view text) {
  if (point.code == '\n') return "\u23CE";
  if (point.code < 0x20 || point.code == kInvalidUtf8 || (point.code >= 0x7F && point.code < 0xA0))
    return "\uFFFD";
  return text.substr(0, static_cast<size_t>(point.length));
}

bool is_blank(char letter) { return letter == ' ' || letter == '\n'; }

}  // namespace

bool LineEditor::can_edit() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && terminal != nullptr &&
         std::strcmp(terminal, "dumb") != 0;
}

void LineEditor::remember(const std::string& line) {
  if (line.empty() || (!history_.empty() && history_.back() == line)) return;
  if (history_.size() == kMostHistory) history_.erase(history_.begin());
  history_.push_back(line);
}

LineEditor::Result LineEditor::read(const std::string& prompt, std::string& line) {
  return edits_ ? edit(prompt, line) : read_plain(line);
}

LineEditor::Result LineEditor::read_plain(std::string& line) {
  while (true) {
    const size_t end = buffer_.find('\n');
    if (end != buffer_.npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Result::line;
    }
    char bytes[4096];
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) {
      if (!Interrupt::requested()) continue;
      buffer_.clear();
      return Result::interrupted;
    }
    if (count <= 0) {
      line = std::exchange(buffer_, {});
      return line.empty() ? Result::end : Result::line;
    }
    buffer_.append(bytes, static_cast<size_t>(count));
  }
}

LineEditor::Result LineEditor::edit(const std::string& prompt, std::string& line) {
  const RawMode raw;
  text_.clear();
  draft_.clear();
  cursor_ = 0;
  cursor_row_ = 0;
  place_ = history_.size();
  Result result = Result::end;
  draw(prompt);
  for (char byte = 0; next_byte(byte);) {
    if (Interrupt::requested()) byte = 3;
    if (byte == 27) {
      take_key(escape());
    } else if (byte == 26) {  // Ctrl-Z
      put("\r\n");
      raw.suspend();
      cursor_row_ = 0;
    } else if (static_cast<unsigned char>(byte) < 32 || byte == 127) {
      if (!take_control(byte, result)) break;
    } else {
      insert(byte);
    }
    // While more bytes of a paste or of a character are there, drawing can wait.
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (buffer_.empty() && poll(&input, 1, 0) == 0) draw(prompt);
  }
  cursor_ = text_.size();
  draw(prompt);
  put("\r\n");
  line = text_;
  return result;
}

bool LineEditor::next_byte(char& byte) {
  if (buffer_.empty()) {
    char bytes[4096];
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) {
      byte = 0;  // no key: a signal came
      return true;
    }
    if (count <= 0) return false;
    buffer_.assign(bytes, static_cast<size_t>(count));
  }
  byte = buffer_.front();
  buffer_.erase(0, 1);
  return true;
}

// What an escape sequence stands for.
LineEditor::Key LineEditor::escape() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (buffer_.empty() && poll(&input, 1, 50) == 0) return Key::none;  // the key Escape itself
  char byte = 0;
  if (!next_byte(byte)) return Key::none;
  if (byte == 'b') return Key::word_left;
  if (byte == 'f') return Key::word_right;
  if (byte != '[' && byte != 'O') return Key::none;
  std::string parameters;
  while (next_byte(byte) && ((byte >= '0' && byte <= '9') || byte == ';')) parameters += byte;
  const bool by_word = parameters == "1;5" || parameters == "1;3";
  switch (byte) {
    case 'A':
      return Key::up;
    case 'B':
      return Key::down;
    case 'C':
      return by_word ? Key::word_right : Key::right;
    case 'D':
      return by_word ? Key::word_left : Key::left;
    case 'H':
      return Key::home;
    case 'F':
      return Key::end;
    case '~':
      if (parameters == "1" || parameters == "7") return Key::home;
      if (parameters == "4" || parameters == "8") return Key::end;
      if (parameters == "3") return Key::erase;
      if (parameters == "200") return Key::paste;
      return Key::none;
    default:
      return Key::none;
  }
}

bool LineEditor::take_control(char byte, Result& result) {
  const auto control = [](char letter) { return letter - '@'; };
  if (byte == '\r' || byte == '\n') {
    result = Result::line;
    return false;
  }
  if (byte == control('C')) {
    text_.clear();
    result = Result::interrupted;
    return false;
  }
  if (byte == control('D')) {
    if (text_.empty()) return false;
    take_key(Key::erase);
  } else if (byte == 127 || byte == control('H')) {
    erase(before(cursor_), cursor_);
  } else if (byte == control('A')) {
    cursor_ = 0;
  } else if (byte == control('E')) {
    cursor_ = text_.size();
  } else if (byte == control('B')) {
    cursor_ = before(cursor_);
  } else if (byte == control('F')) {
    cursor_ = after(cursor_);
  } else if (byte == control('P')) {
    browse(-1);
  } else if (byte == control('N')) {
    browse(1);
  } else if (byte == control('K')) {
    text_.resize(cursor_);
  } else if (byte == control('U')) {
    erase(0, cursor_);
  } else if (byte == control('W')) {
    erase(word_before(cursor_), cursor_);
  } else if (byte == control('L')) {
    put("\x1b[H\x1b[2J");
    cursor_row_ = 0;
  }
  return true;
}

void LineEditor::take_key(Key key) {
  switch (key) {
    case Key::up:
      return browse(-1);
    case Key::down:
      return browse(1);
    case Key::left:
      cursor_ = before(cursor_);
      return;
    case Key::right:
      cursor_ = after(cursor_);
      return;
    case Key::home:
      cursor_ = 0;
      return;
    case Key::end:
      cursor_ = text_.size();
      return;
    case Key::erase:
      return erase(cursor_, after(cursor_));
    case Key::word_left:
      cursor_ = word_before(cursor_);
      return;
    case Key::word_right:
      cursor_ = word_after(cursor_);
      return;
    case Key::paste:
      return paste();
    case Key::none:
      return;
  }
}

// Inserts everything up to the end of a paste, ends of lines included.
void LineEditor::paste() {
  constexpr std::string_view kEnd = "\x1b[201~";
  std::string text;
  for (char byte = 0; !text.ends_with(kEnd) && next_byte(byte);) text += byte == '\r' ? '\n' : byte;
  if (text.ends_with(kEnd)) text.resize(text.size() - kEnd.size());
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineEditor::insert(char byte) {
  text_.insert(cursor_, 1, byte);
  ++cursor_;
}

void LineEditor::erase(size_t from, size_t to) {
  text_.erase(from, to - from);
  cursor_ = from;
}

// Shows an older (-1) or younger (1) line; behind the youngest comes what was being typed.
void LineEditor::browse(int step) {
  if ((step < 0 && place_ == 0) || (step > 0 && place_ == history_.size())) return;
  if (place_ == history_.size()) draft_ = text_;
  place_ = step < 0 ? place_ - 1 : place_ + 1;
  text_ = place_ == history_.size() ? draft_ : history_[place_];
  cursor_ = text_.size();
}

size_t LineEditor::before(size_t at) const {
  if (at == 0) return 0;
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80);
  const CodePoint point = decode_utf8(std::string_view(text_).substr(at));
  return at > 0 && columns_of(point.code) == 0 ? before(at) : at;
}

size_t LineEditor::after(size_t at) const {
  const std::string_view text = text_;
  if (at < text.size()) at += static_cast<size_t>(decode_utf8(text.substr(at)).length);
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text.substr(at));
    if (columns_of(point.code) != 0) break;
    at += static_cast<size_t>(point.length);
  }
  return at;
}

size_t LineEditor::word_before(size_t at) const {
  while (at > 0 && is_blank(text_[at - 1])) --at;
  while (at > 0 && !is_blank(text_[at - 1])) --at;
  return at;
}

size_t LineEditor::word_after(size_t at) const {
  while (at < text_.size() && is_blank(text_[at])) ++at;
  while (at < text_.size() && !is_blank(text_[at])) ++at;
  return at;
}

// Writes prompt and text anew and puts the cursor where it belongs. The terminal wraps long lines.
void LineEditor::draw(const std::string& prompt) {
  const int width = terminal_columns();
  std::string out = "\r";
  if (cursor_row_ > 0) out += "\x1b[" + std::to_string(cursor_row_) + "A";
  out += "\x1b[J" + prompt;
  Place place;
  for (size_t i = 0; i < prompt.size(); ++i) place.advance(1, width);  // prompts are ASCII
  Place cursor = place;
  std::string_view rest = text_;
  while (true) {
    if (text_.size() - rest.size() == cursor_) cursor = place;
    if (rest.empty()) break;
    const CodePoint point = decode_utf8(rest);
    out += shown(point, rest);
    place.advance(columns_of(point.code), width);
    rest.remove_prefix(static_cast<size_t>(point.length));
  }
  // A full row leaves the cursor in its last column; the next character begins a new row.
  if (place.column == width) {
    out += "\r\n";
    place = {place.row + 1, 0};
  }
  if (cursor.column == width) cursor = {cursor.row + 1, 0};
  if (place.row > cursor.row) out += "\x1b[" + std::to_string(place.row - cursor.row) + "A";
  out += "\r";
  if (cursor.column > 0) out += "\x1b[" + std::to_string(cursor.column) + "C";
  put(out);
  cursor_row_ = cursor.row;
}

}  // namespace tensora::cli
