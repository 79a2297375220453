#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "train/temporary_folder.h"

namespace tensora::testing {

/// The program tensora, started with some words and, as standard input, a text.
class Program {
 public:
  Program(const TemporaryFolder& folder, std::vector<std::string> words,
          const std::string& input = "")
      : out_(folder.path("stdout")), error_(folder.path("stderr")) {
    const std::string in = folder.path("stdin");
    write_text(in, input);
    words.insert(words.begin(), TENSORA_CLI);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    child_ = fork();
    if (child_ != 0) return;
    dup2(open(in.c_str(), O_RDONLY), 0);
    for (const auto& [path, descriptor] : {std::pair{out_, 1}, {error_, 2}})
      dup2(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), descriptor);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  void send(int signal) const { kill(child_, signal); }
  /// Whether the program is over; wait() still tells how.
  bool ended() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child_;
  }
  /// The exit code; a signal's number plus 128.
  int wait() const {
    int status = 0;
    waitpid(child_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string out() const { return read_text(out_); }
  std::string error() const { return read_text(error_); }

 private:
  std::string out_, error_;
  pid_t child_;
};

}  // namespace tensora::testing
