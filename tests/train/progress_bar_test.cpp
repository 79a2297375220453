#include "tensora/train/progress_bar.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "tensora/train/number_text.h"

namespace tensora::train {
namespace {

using Choice = ProgressBarOptions::Choice;

// What a bar wrote, and a clock that tests set.
class Screen {
 public:
  Screen() { EXPECT_EQ(pipe(ends_), 0); }
  ~Screen() {
    close(ends_[0]);
    close(ends_[1]);
  }
  ProgressBarOptions options(bool terminal, int columns = 80) {
    return {.title = "lm",
            .descriptor = ends_[1],
            .terminal = terminal ? Choice::yes : Choice::no,
            .utf8 = Choice::yes,
            .columns = columns,
            .now = [this] { return seconds; }};
  }
  std::string taken() {
    char buffer[1 << 16];
    std::string out;
    const char end = 0;
    EXPECT_EQ(write(ends_[1], &end, 1), 1);
    const ssize_t count = read(ends_[0], buffer, sizeof(buffer));
    if (count > 0) out.assign(buffer, static_cast<size_t>(count) - 1);
    return out;
  }
  double seconds = 100;

 private:
  int ends_[2] = {-1, -1};
};

int count_of(const std::string& text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ProgressBar, ATerminalThatMovesNoCursorGetsLines) {
  const int screen = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(screen, 0);
  ASSERT_EQ(grantpt(screen) + unlockpt(screen), 0);
  const int terminal = open(ptsname(screen), O_RDWR | O_NOCTTY);
  ASSERT_EQ(isatty(terminal), 1);
  const char* const before = std::getenv("TERM");
  const std::string old = before ? before : "";
  for (const auto& [name, moves] : {std::pair{"xterm", true}, {"dumb", false}}) {
    setenv("TERM", name, 1);
    ProgressBarOptions options;
    options.descriptor = terminal;
    ProgressBar(2, options).update(1);
    // A terminal passes on what was written when it likes: read up to a mark behind it.
    ASSERT_EQ(write(terminal, "#end", 4), 4);
    std::string text;
    while (!text.ends_with("#end")) {
      char shown[4096];
      const ssize_t count = read(screen, shown, sizeof(shown));
      ASSERT_GT(count, 0);
      text.append(shown, static_cast<size_t>(count));
    }
    EXPECT_EQ(text.find('\x1b') != text.npos, moves) << name << ": " << text;
  }
  if (before)
    setenv("TERM", old.c_str(), 1);
  else
    unsetenv("TERM");
  close(terminal);
  close(screen);
}

TEST(ProgressBar, OneLineIsRedrawnOnATerminal) {
  Screen screen;
  {
    ProgressBar bar(200, screen.options(true));
    for (int i = 1; i <= 200; ++i) {
      screen.seconds += 0.02;  // 50 a second: drawn every 0.1 s
      bar.set("loss", 4.0 / i);
      bar.update(i);
    }
    EXPECT_NEAR(bar.rate(), 50, 1);
  }
  const std::string text = screen.taken();
  EXPECT_LE(count_of(text, "\r"), 42);
  EXPECT_EQ(count_of(text, "\n"), 1);
  EXPECT_NE(text.find("█"), text.npos);
  EXPECT_NE(text.find("100%"), text.npos);
  EXPECT_NE(text.find("loss 0.02"), text.npos);
  // The cursor is visible after every write.
  EXPECT_EQ(count_of(text, "\x1b[?25l"), count_of(text, "\x1b[?25h"));
}

TEST(ProgressBar, ALineFitsTheTerminal) {
  for (const int columns : {1, 2, 10, 20, 33, 50, 64, 80, 120, 200}) {
    Screen screen;
    {
      ProgressBar bar(1000, screen.options(true, columns));
      screen.seconds += 1;
      for (const char* name : {"loss", "accuracy", "lr", "tokens"}) bar.set(name, 0.12345);
      bar.update(137);
    }
    std::string text = screen.taken();
    for (const char* code : {"\x1b[?25l", "\x1b[?25h", "\x1b[K", "\n"})
      for (size_t at = text.find(code); at != text.npos; at = text.find(code))
        text.erase(at, std::string_view(code).size());
    size_t start = 0;
    while (start < text.size()) {
      const size_t end = std::min(text.find('\r', start), text.size());
      EXPECT_LE(text_columns(text.substr(start, end - start)), std::max(columns - 1, 1));
      start = end + 1;
    }
  }
}

TEST(ProgressBar, PlainLinesElsewhere) {
  Screen screen;
  {
    ProgressBar bar(100, screen.options(false));
    for (int i = 1; i <= 100; ++i) {
      screen.seconds += 1;
      bar.update(i);
    }
    bar.print("a sample");
  }
  const std::string text = screen.taken();
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_EQ(text.find('\r'), text.npos);
  EXPECT_EQ(count_of(text, "\n"), 12);  // the first, one each 10 s, the text, the last
  EXPECT_NE(text.find("a sample\n"), text.npos);
  EXPECT_NE(text.find("100/100"), text.npos);
}

TEST(ProgressBar, TextAppearsAboveTheBar) {
  Screen screen;
  ProgressBar bar(10, screen.options(true));
  bar.update(5);
  screen.taken();
  bar.print("hello");
  EXPECT_TRUE(screen.taken().starts_with("\r\x1b[Khello\n"));
  bar.finish();
  bar.finish();
  bar.update(7);
  EXPECT_EQ(count_of(screen.taken(), "\n"), 1);
}

TEST(ProgressBar, AResumedRunCountsItsOwnSteps) {
  Screen screen;
  ProgressBar bar(1000, screen.options(true));
  bar.start_at(900);
  screen.seconds += 10;
  bar.update(910);
  EXPECT_DOUBLE_EQ(bar.rate(), 1);
  EXPECT_NE(screen.taken().find("1:30 left"), std::string::npos);
}

TEST(ProgressBar, NothingToDoAndMore) {
  Screen screen;
  { ProgressBar bar(0, screen.options(true)); }
  {
    ProgressBar bar(10, screen.options(true));
    bar.update(25);
  }
  EXPECT_NE(screen.taken().find("25/10"), std::string::npos);
  EXPECT_ANY_THROW(ProgressBar(-1, {}));
}

TEST(NumberText, ForPeopleAndForFiles) {
  EXPECT_EQ(figure_text(12.3456), "12.35");
  EXPECT_EQ(figure_text(0.00031), "0.00031");
  EXPECT_EQ(figure_text(1.2e-7), "1.2e-07");
  EXPECT_EQ(figure_text(123456), "123456");
  EXPECT_EQ(figure_text(1234.5678), "1234.57");
  EXPECT_EQ(figure_text(NAN), "nan");
  EXPECT_EQ(exact_text(0.1), "0.1");
  EXPECT_EQ(std::stod(exact_text(1.0 / 3)), 1.0 / 3);
  EXPECT_EQ(duration_text(7), "0:07");
  EXPECT_EQ(duration_text(725), "12:05");
  EXPECT_EQ(duration_text(3 * 3600 + 420), "3:07:00");
  EXPECT_EQ(duration_text(52 * 3600), "2 d 4 h");
  EXPECT_EQ(duration_text(INFINITY), "?");
}

}  // namespace
}  // namespace tensora::train
