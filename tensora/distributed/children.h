#pragma once

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace tensora::distributed {

/// A process to start.
struct ChildPlan {
  std::string name;  // "3" for rank 3, as printed before its lines
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<int> cores;  // that it may use; empty: all
  bool prefix = true;
  int death_signal = SIGKILL;  // that it gets when the launcher dies
  /// It starts the ranks and ends after them, as mpirun. One that does not is ended.
  bool starts_others = false;
};

struct ChildrenEnd {
  int status = 0;            // of the first that failed; 128 + signal if one killed it
  std::string cause;         // "rank 1 was killed by signal 9 (Killed)"
  bool interrupted = false;  // by the user
};

/// Starts them all, passes their output on line by line, and waits for their end. When one fails,
/// the others get `patience` seconds to notice, then SIGTERM, and as long again later SIGKILL.
ChildrenEnd run_children(const std::vector<ChildPlan>& plans, bool prefix, double patience);

}  // namespace tensora::distributed
