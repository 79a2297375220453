#include "tensora/train/progress_bar.h"
#include "tensora/base/settings.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>

#include "tensora/base/check.h"
#include "tensora/base/settings.h"
#include "tensora/train/number_text.h"

namespace tensora::train {
namespace {

using Choice = ProgressBarOptions::Choice;

double steady_seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

bool shows_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view text = setting(name);
    if (text.empty()) continue;  // the first one that is set decides
    return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos;
  }
  return false;
}

// A terminal that follows control sequences.
bool moves_cursor(int descriptor) {
  return isatty(descriptor) != 0 && std::string_view(setting("TERM")) != "dumb";
}

bool decide(Choice choice, bool (*ask)(int), int descriptor) {
  return choice == Choice::ask ? ask(descriptor) : choice == Choice::yes;
}

// A bar of `width` columns; UTF-8 has blocks of eighths.
std::string bar(double part, int width, bool utf8) {
  static constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  part = std::clamp(part, 0.0, 1.0);
  const int eighths = static_cast<int>(std::floor(part * width * 8));
  const int full = eighths / 8, rest = utf8 ? eighths % 8 : 0;
  std::string out;
  for (int i = 0; i < full; ++i) out += utf8 ? "█" : "#";
  out += kEighths[rest];
  out.append(static_cast<size_t>(width - full - (rest > 0)), utf8 ? ' ' : '.');
  return utf8 ? concat("▕", out, "▏") : concat("[", out, "]");
}

// The first `columns` columns of a UTF-8 text.
std::string_view cut(std::string_view text, int columns) {
  size_t at = 0;
  for (int seen = 0; at < text.size(); ++at) {
    const bool starts = (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
    if (starts && seen++ == columns) break;
  }
  return text.substr(0, at);
}

}  // namespace

int text_columns(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) & 0xC0) != 0x80;
  }));
}

ProgressBar::ProgressBar(int64_t total, ProgressBarOptions options)
    : total_(total), options_(std::move(options)) {
  check(total >= 0, "ProgressBar: total must not be negative, got ", total);
  if (!options_.now) options_.now = steady_seconds;
  terminal_ = decide(options_.terminal, moves_cursor, options_.descriptor);
  utf8_ = decide(
      options_.utf8, [](int) { return shows_utf8(); }, 0);
  interval_ = options_.seconds > 0 ? options_.seconds : terminal_ ? 0.1 : 10;
  started_ = measured_at_ = options_.now();
}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::set(std::string_view name, double value) { set(name, figure_text(value)); }

void ProgressBar::set(std::string_view name, std::string text) {
  for (auto& [known, shown] : figures_) {
    if (known != name) continue;
    shown = std::move(text);
    return;
  }
  figures_.emplace_back(name, std::move(text));
}

void ProgressBar::start_at(int64_t done) {
  done_ = measured_done_ = done;
  measured_at_ = options_.now();
}

void ProgressBar::update(int64_t done) {
  done_ = done;
  if (finished_) return;
  const double now = options_.now();
  measure(now);
  if (is_due(now)) draw();
}

bool ProgressBar::is_due(double now) const { return !drawn_ || now - drawn_at_ >= interval_; }

// The weight of what was measured t seconds ago falls as exp(-t / 5): smooth, but a change of pace
// shows within seconds.
void ProgressBar::measure(double now) {
  const double passed = now - measured_at_;
  const int64_t count = done_ - measured_done_;
  if (count <= 0 || passed < 0.05) return;
  const double current = static_cast<double>(count) / passed;
  const double keep = rate_ > 0 ? std::exp(-passed / 5) : 0;
  rate_ = keep * rate_ + (1 - keep) * current;
  measured_at_ = now;
  measured_done_ = done_;
}

void ProgressBar::print(std::string_view text) {
  std::string out;
  if (terminal_ && drawn_ && !finished_) out += "\r\x1b[K";
  out += text;
  if (text.empty() || text.back() != '\n') out += '\n';
  write(out);
  if (terminal_ && drawn_ && !finished_) draw();
}

void ProgressBar::finish() {
  if (finished_) return;
  finished_ = true;
  draw();
  if (terminal_) write("\n");
}

void ProgressBar::draw() {
  int columns = options_.columns;
  if (terminal_ && columns == 0) {
    winsize size{};
    if (ioctl(options_.descriptor, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
    if (columns == 0) columns = 80;
  }
  drawn_ = true;
  drawn_at_ = options_.now();
  // The last column stays free: some terminals wrap when it is written to.
  if (terminal_)
    write(concat("\x1b[?25l\r", line(std::max(columns - 1, 1)), "\x1b[K\x1b[?25h"));
  else
    write(line(0) + "\n");
}

std::string ProgressBar::times() const {
  std::string out;
  if (rate_ > 0) {
    out += rate_ >= 1 ? concat(figure_text(rate_), " ", options_.unit, "/s")
                      : concat(figure_text(1 / rate_), " s/", options_.unit);
  }
  const double passed = options_.now() - started_;
  if (finished_ || rate_ <= 0 || total_ <= done_)
    return concat(out, out.empty() ? "" : "  ", duration_text(passed));
  return concat(out, "  ", duration_text(passed), ", ",
                duration_text(static_cast<double>(total_ - done_) / rate_), " left");
}

// `columns` 0: no limit and no bar, for a file.
std::string ProgressBar::line(int columns) const {
  const double part =
      total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : (finished_ ? 1 : 0);
  const std::string count = concat(done_, "/", total_);
  std::string head = options_.title.empty() ? "" : options_.title + " ";
  const std::string percent = concat(static_cast<int>(std::floor(100 * std::min(part, 1.0))), "%");
  head += std::string(4 - std::min<size_t>(4, percent.size()), ' ') + percent;
  std::string tail = count;
  // What does not fit is left out from the end: first figures, then the times.
  const auto add = [&](const std::string& more) {
    const int needed = text_columns(head) + text_columns(tail) + text_columns(more) + 14;
    if (columns == 0 || needed <= columns) tail += "  " + more;
  };
  add(times());
  for (const auto& [name, value] : figures_) add(concat(name, " ", value));
  if (columns == 0) return concat(head, " ", tail);
  const int width = std::min(40, columns - text_columns(head) - text_columns(tail) - 4);
  std::string out =
      width < 4 ? concat(head, " ", tail) : concat(head, " ", bar(part, width, utf8_), " ", tail);
  return std::string(cut(out, std::max(columns, 1)));
}

// A display that cannot be written to must not end what it displays.
void ProgressBar::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(options_.descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace tensora::train
