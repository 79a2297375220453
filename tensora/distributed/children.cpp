#include "tensora/distributed/children.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tensora/base/check.h"
#include "tensora/distributed/init.h"
#include "tensora/distributed/report.h"

namespace tensora::distributed {
namespace {

using Clock = std::chrono::steady_clock;
std::atomic<int> caught_signal = 0;

struct Child {
  const ChildPlan* plan = nullptr;
  pid_t process = -1;
  int outputs[2] = {-1, -1};  // its standard output and standard error
  std::string pending[2];     // lines that are not complete yet
  bool ended = false;
  bool had_children = false;          // where the plan says that it starts others
  Clock::time_point last_child = {};  // when one of them was seen
};

// Whether the process has a child that runs.
bool has_children(pid_t process) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (!std::getline(file, text)) continue;
    // PID (NAME) STATE PARENT …; the name may have blanks and brackets.
    std::istringstream words(text.substr(std::min(text.rfind(')') + 1, text.size())));
    char state = 'Z';
    pid_t parent = 0;
    if (words >> state >> parent && parent == process && state != 'Z') return true;
  }
  return false;
}

// Between fork and exec: nothing here may allocate, as another thread could have held the lock.
[[noreturn]] void become(const ChildPlan& plan, char* const* arguments, char* const* variables,
                         const int (&ends)[2], pid_t parent) {
  ::setpgid(0, 0);
  ::signal(SIGPIPE, SIG_DFL);  // which a program may ignore, but not for others
  ::prctl(PR_SET_PDEATHSIG, plan.death_signal);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  if (!plan.cores.empty()) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (int core : plan.cores) CPU_SET(core, &cores);
    ::sched_setaffinity(0, sizeof cores, &cores);
  }
  ::dup2(ends[0], STDOUT_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  ::execvpe(arguments[0], arguments, variables);
  const char* const reason = std::strerror(errno);
  for (const char* part : {"tensora: launch: ", static_cast<const char*>(arguments[0]),
                           " could not be started: ", reason, "\n"})
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  ::_exit(127);
}

Child start(const ChildPlan& plan) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (std::ranges::none_of(plan.variables, [&](const auto& v) { return v.first == name; }))
      variables.push_back(text);
  }
  for (const auto& [name, value] : plan.variables) variables.push_back(name + "=" + value);
  std::vector<char*> arguments, environment;
  for (const std::string& word : plan.command) arguments.push_back(const_cast<char*>(word.c_str()));
  for (std::string& entry : variables) environment.push_back(entry.data());
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  int out[2], err[2];
  check(::pipe2(out, O_CLOEXEC) == 0 && ::pipe2(err, O_CLOEXEC) == 0,
        "launch: no pipe for the output of a rank: ", std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  check(process >= 0, "launch: no process could be started: ", std::strerror(errno));
  const int ends[2] = {out[1], err[1]};
  if (process == 0) become(plan, arguments.data(), environment.data(), ends, parent);
  ::setpgid(process, process);
  ::close(out[1]);
  ::close(err[1]);
  Child child;
  child.plan = &plan;
  child.process = process;
  child.outputs[0] = out[0];
  child.outputs[1] = err[0];
  return child;
}

void write_all(int handle, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(handle, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void pass_on(Child& child, int which, bool prefix, bool all) {
  std::string& pending = child.pending[which];
  std::string lines;
  for (size_t end; (end = pending.find('\n')) != std::string::npos || (all && !pending.empty());) {
    const size_t length = end == std::string::npos ? pending.size() : end + 1;
    if (prefix && child.plan->prefix) append(lines, concat("[", child.plan->name, "] "));
    lines += pending.substr(0, length);
    if (end == std::string::npos) lines += '\n';
    pending.erase(0, length);
  }
  write_all(which == 0 ? STDOUT_FILENO : STDERR_FILENO, lines);
}

void read_output(Child& child, int which, bool prefix) {
  char buffer[65536];
  const ssize_t got = ::read(child.outputs[which], buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return;
  if (got > 0) child.pending[which].append(buffer, static_cast<size_t>(got));
  pass_on(child, which, prefix, got <= 0);
  if (got <= 0) {
    ::close(child.outputs[which]);
    child.outputs[which] = -1;
  }
}

std::string end_text(const Child& child, int status) {
  const bool rank = child.plan->prefix;
  const std::string who = concat(rank ? "rank " : "", child.plan->name);
  if (WIFSIGNALED(status))
    return concat(who, " was killed by signal ", WTERMSIG(status), " (",
                  ::strsignal(WTERMSIG(status)), ")");
  return concat(who, " ended with status ", WEXITSTATUS(status));
}

/// The processes of one attempt.
class Family {
 public:
  Family(const std::vector<ChildPlan>& plans, bool prefix, double patience)
      : prefix_(prefix), patience_(patience) {
    for (const ChildPlan& plan : plans) children_.push_back(start(plan));
  }
  ~Family() {
    for (Child& child : children_)
      if (!child.ended) {
        ::kill(-child.process, SIGKILL);
        ::waitpid(child.process, nullptr, 0);
      }
    for (const Child& child : children_)
      for (int handle : child.outputs)
        if (handle >= 0) ::close(handle);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  ChildrenEnd wait() {
    while (!over()) {
      pump(50);
      reap();
      if (caught_signal && !end_.interrupted) {
        end_.interrupted = true;
        end_.status = 128 + caught_signal;
        end_.cause = concat("interrupted by signal ", caught_signal.load());
        begin_end(0);
      }
      look_after_starters();
      press_on();
    }
    return end_;
  }

 private:
  bool over() const {
    return std::ranges::all_of(children_, [](const Child& child) {
      return child.ended && child.outputs[0] < 0 && child.outputs[1] < 0;
    });
  }

  void pump(int milliseconds) {
    std::vector<pollfd> watched;
    std::vector<std::pair<Child*, int>> owners;
    for (Child& child : children_)
      for (int which : {0, 1})
        if (child.outputs[which] >= 0) {
          watched.push_back({child.outputs[which], POLLIN, 0});
          owners.emplace_back(&child, which);
        }
    if (::poll(watched.data(), watched.size(), milliseconds) <= 0) return;
    for (size_t i = 0; i < watched.size(); ++i)
      if (watched[i].revents) read_output(*owners[i].first, owners[i].second, prefix_);
  }

  void reap() {
    for (Child& child : children_) {
      int status = 0;
      if (child.ended || ::waitpid(child.process, &status, WNOHANG) <= 0) continue;
      child.ended = true;
      if (status == 0) continue;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      // A rank that fails because of another may still end before it.
      if (end_.status == 0 || (end_.status == kFailedWithAnother && !pressed_ && code != 0 &&
                               code != kFailedWithAnother)) {
        end_.status = code;
        end_.cause = end_text(child, status);
        begin_end(patience_);
      }
    }
  }

  // mpirun may hang, or crash, in its own end when ranks have died. Its ranks are gone then.
  void look_after_starters() {
    const auto now = Clock::now();
    if (ending_ || now < next_look_) return;
    next_look_ = now + std::chrono::milliseconds(500);
    for (Child& child : children_) {
      if (child.ended || !child.plan->starts_others) continue;
      if (has_children(child.process)) {
        child.had_children = true;
        child.last_child = now;
      } else if (child.had_children &&
                 now - child.last_child > std::chrono::duration<double>(patience_ + 2)) {
        end_.status = 1;
        end_.cause = concat(child.plan->name, " did not end after the ranks had");
        begin_end(0);
      }
    }
  }

  void begin_end(double seconds) {
    if (ending_) return;
    ending_ = true;
    next_press_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(seconds));
  }

  void press_on() {
    if (!ending_ || Clock::now() < next_press_) return;
    for (const Child& child : children_)
      if (!child.ended) {
        ::kill(-child.process, pressed_ ? SIGKILL : SIGTERM);
        ::kill(-child.process, SIGCONT);  // a stopped process does not see the signal before
      }
    // What a rank left behind may hold its output open; its lines are no longer awaited.
    if (pressed_)
      for (Child& child : children_)
        for (int& handle : child.outputs)
          if (child.ended && handle >= 0) ::close(std::exchange(handle, -1));
    pressed_ = true;
    next_press_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(patience_));
  }

  std::vector<Child> children_;
  const bool prefix_;
  const double patience_;
  ChildrenEnd end_;
  bool ending_ = false, pressed_ = false;
  Clock::time_point next_press_, next_look_;
};

/// Notes SIGINT and SIGTERM while it lives.
class SignalScope {
 public:
  SignalScope() {
    caught_signal = 0;
    struct sigaction action {};
    action.sa_handler = [](int number) { caught_signal = number; };
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~SignalScope() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

}  // namespace

ChildrenEnd run_children(const std::vector<ChildPlan>& plans, bool prefix, double patience) {
  const SignalScope signals;
  Family family(plans, prefix, patience);
  return family.wait();
}

}  // namespace tensora::distributed
