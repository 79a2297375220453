#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensora::train {

struct ProgressBarOptions {
  std::string title;          // before the bar
  std::string unit = "step";  // of the rate: "step/s"
  int descriptor = 2;         // what is written to: standard error
  double seconds = 0;         // between two drawings; 0: 0.1 on a terminal, 10 elsewhere
  /// Unknown until asked: whether the descriptor is a terminal, how wide it is, whether it shows
  /// UTF-8, what the time is. Tests set them.
  enum class Choice : uint8_t { ask, no, yes } terminal = Choice::ask, utf8 = Choice::ask;
  int columns = 0;
  std::function<double()> now = nullptr;
};

/// What is done, how fast, how long it will take, and figures such as the loss. One line that is
/// redrawn on a terminal, plain lines now and then elsewhere.
///
/// A drawing is a single write that leaves the cursor visible, so nothing flickers and a killed
/// program leaves a usable terminal.
class ProgressBar {
 public:
  explicit ProgressBar(int64_t total, ProgressBarOptions options = {});
  /// Draws the last state and ends the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// A figure shown behind the bar, in the order of first use; shown at the next update.
  void set(std::string_view name, double value);
  void set(std::string_view name, std::string text);
  /// `done` of `total` are done; draws if it is time to.
  void update(int64_t done);
  void advance(int64_t count = 1) { update(done_ + count); }
  /// What was done before this process started (a resumed run): it does not count for the rate.
  void start_at(int64_t done);
  /// Prints text above the bar.
  void print(std::string_view text);
  /// Draws the last state and ends the line; later calls do nothing.
  void finish();

  /// Units per second, a moving average over the last seconds; 0 before the first update.
  double rate() const { return rate_; }

 private:
  bool is_due(double now) const;
  void measure(double now);
  void draw();
  std::string line(int columns) const;
  std::string times() const;
  void write(std::string_view text) const;

  int64_t total_, done_ = 0;
  ProgressBarOptions options_;
  bool terminal_, utf8_, finished_ = false, drawn_ = false;
  double interval_, started_, drawn_at_ = 0, measured_at_, rate_ = 0;
  int64_t measured_done_ = 0;
  std::vector<std::pair<std::string, std::string>> figures_;
};

/// The columns that a UTF-8 text takes on a terminal, where every letter takes one.
int text_columns(std::string_view text);

}  // namespace tensora::train
