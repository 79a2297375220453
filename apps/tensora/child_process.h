#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "private_folder.h"

namespace tensora::cli {

/// A child did not do what it was asked: it ended, was killed, or took too long.
class ChildError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// This program, started again with other words. Lines go to its standard input and come from its
/// standard output. The child has a process group of its own, which ends with this object, and the
/// kernel ends the child where this process dies first: there are no orphans. Temporary files of
/// the child are in a folder that goes with this object, also where the child crashes.
class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> words);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void send(const std::string& line);
  /// The next line that it prints. Throws ChildError where there is none within `seconds`, and
  /// Interrupted where a signal came that an Interrupt of this thread counts.
  std::string receive(double seconds);
  /// What it last wrote to standard error, on one line.
  std::string complaint() const;
  pid_t pid() const { return pid_; }

 private:
  void kill_group() noexcept;
  bool read_some(int descriptor, std::string& into);
  /// Why a child that has closed its output is gone.
  std::string cause();

  PrivateFolder folder_{"tensora-child-"};
  pid_t pid_ = -1;
  int input_ = -1, output_ = -1, error_ = -1;
  std::string read_, errors_;
  bool is_reaped_ = false;
};

/// In a child: keeps standard output for lines to the parent, and lets what libraries print to it
/// go to standard error.
class ParentLine {
 public:
  ParentLine();
  ~ParentLine();
  ParentLine(const ParentLine&) = delete;
  ParentLine& operator=(const ParentLine&) = delete;

  void send(const std::string& line) const;

 private:
  int output_;
};

}  // namespace tensora::cli
