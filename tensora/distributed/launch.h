#pragma once

#include <string>
#include <vector>

namespace tensora::distributed {

struct LaunchOptions {
  int ranks = 1;
  std::string backend = "auto";  // local, mpi, or auto: mpi if there are other hosts
  std::string hosts;             // a file with a line HOST [slots=N] for each host
  int restarts = 0;              // how often a job that failed is started again
  int threads = 0;               // per rank; 0: the cores divided by the ranks
  bool prefix = true;            // put the rank's number before each line of its output
  double patience = 5;  // seconds that ranks get to end by themselves, and again after SIGTERM
  std::vector<std::string> command;
};

/// Starts `command` once for each rank and waits for all of them. When one fails, the others are
/// ended, and the first cause is printed last. The result is the first cause's exit status, or 128
/// + signal. Ranks end with the process that launched them. Called by a program with one thread.
int launch(const LaunchOptions& options);

}  // namespace tensora::distributed
