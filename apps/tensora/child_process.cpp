#include "child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "commands.h"
#include "figures.h"
#include "interrupt.h"

namespace tensora::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMostErrors = 8192;
// A child that has closed its output should end; one that does not is killed.
constexpr double kSecondsToEnd = 2;

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { check(pipe2(ends, O_CLOEXEC) == 0, "a pipe cannot be made: ", std::strerror(errno)); }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
  int take(int index) { return std::exchange(ends[index], -1); }
};

// Between fork and exec: only functions that a signal handler may call.
[[noreturn]] void become(char* const* arguments, char* const* environment, const Pipe& in,
                         const Pipe& out, const Pipe& error, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above
  dup2(in.ends[0], STDIN_FILENO);
  dup2(out.ends[1], STDOUT_FILENO);
  dup2(error.ends[1], STDERR_FILENO);
  execve("/proc/self/exe", arguments, environment);
  _exit(127);
}

bool write_line(int descriptor, const std::string& line) {
  const std::string text = line + "\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> words) {
  words.insert(words.begin(), "tensora");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string folder = "TMPDIR=" + folder_.path();
  std::vector<char*> environment = {folder.data()};
  for (char** variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("TMPDIR=")) environment.push_back(*variable);
  environment.push_back(nullptr);
  Pipe in, out, error;
  const pid_t parent = getpid();
  pid_ = fork();
  check(pid_ >= 0, "a process cannot be started: ", std::strerror(errno));
  if (pid_ == 0) become(arguments.data(), environment.data(), in, out, error, parent);
  setpgid(pid_, pid_);  // whoever of the two comes first
  input_ = in.take(1);
  output_ = out.take(0);
  error_ = error.take(0);
}

ChildProcess::~ChildProcess() {
  kill_group();
  for (const int descriptor : {input_, output_, error_}) close(descriptor);
}

void ChildProcess::kill_group() noexcept {
  kill(-pid_, SIGKILL);
  if (is_reaped_) return;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  is_reaped_ = true;
}

void ChildProcess::send(const std::string& line) {
  if (!write_line(input_, line)) throw ChildError(cause());
}

bool ChildProcess::read_some(int descriptor, std::string& into) {
  char buffer[1 << 16];
  const ssize_t count = read(descriptor, buffer, sizeof(buffer));
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  into.append(buffer, static_cast<size_t>(count));
  return count > 0;
}

std::string ChildProcess::receive(double seconds) {
  const auto began = Clock::now();
  bool has_errors = true;
  while (true) {
    if (const size_t end = read_.find('\n'); end != read_.npos) {
      const std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    if (Interrupt::requested()) throw Interrupted(Interrupt::signal());
    if (std::chrono::duration<double>(Clock::now() - began).count() > seconds) {
      kill_group();
      throw ChildError(concat("it did not answer within ", seconds, " s and was stopped"));
    }
    pollfd waits[2] = {{.fd = output_, .events = POLLIN, .revents = 0},
                       {.fd = has_errors ? error_ : -1, .events = POLLIN, .revents = 0}};
    if (poll(waits, 2, 50) <= 0) continue;
    if (waits[1].revents != 0) {
      has_errors = read_some(error_, errors_);
      if (errors_.size() > kMostErrors) errors_.erase(0, errors_.size() - kMostErrors);
    }
    if (waits[0].revents != 0 && !read_some(output_, read_)) throw ChildError(cause());
  }
}

std::string ChildProcess::complaint() const {
  const size_t end = errors_.find_last_not_of('\n');
  if (end == errors_.npos) return {};
  const size_t before = errors_.rfind('\n', end);
  return printable(
      std::string_view(errors_).substr(before == errors_.npos ? 0 : before + 1, end - before), 500);
}

std::string ChildProcess::cause() {
  while (true) {
    pollfd wait{.fd = error_, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, 20) <= 0 || !read_some(error_, errors_)) break;
  }
  int status = 0;
  pid_t ended = 0;
  for (const auto began = Clock::now();
       !is_reaped_ && std::chrono::duration<double>(Clock::now() - began).count() < kSecondsToEnd;
       usleep(5000))
    if ((ended = waitpid(pid_, &status, WNOHANG)) == pid_) is_reaped_ = true;
  const std::string said = complaint();
  const std::string tail = said.empty() ? "" : concat(": ", said);
  if (ended != pid_) return "its process closed its output" + tail;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return concat("its process was ended by signal ", signal, " (", strsignal(signal), ")", tail);
  }
  return concat("its process ended with exit code ", WEXITSTATUS(status), tail);
}

ParentLine::ParentLine() : output_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) {
  const bool is_moved = output_ >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
  check(is_moved, "standard output cannot be moved: ", std::strerror(errno));
}

ParentLine::~ParentLine() {
  std::fflush(stdout);
  dup2(output_, STDOUT_FILENO);
  close(output_);
}

void ParentLine::send(const std::string& line) const {
  check(write_line(output_, line), "the parent does not listen any more");
}

}  // namespace tensora::cli
