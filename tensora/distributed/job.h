#pragma once

// What the groups of one process share, and the groups themselves.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensora/distributed/control.h"
#include "tensora/distributed/lane.h"

namespace tensora::distributed {

/// Connects the ranks of groups: what a backend between processes implements. docs/distributed.md
/// lists those that there are.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view backend() const = 0;
  struct Transports {
    std::unique_ptr<Transport> calls;  // for collectives
    /// For the messages to one rank, or from one. Any number of them work at the same time.
    std::function<std::unique_ptr<Transport>(std::shared_ptr<Watch>)> messages;
  };
  /// All members call it, in the same order; `key` is the same for all of them and unique.
  virtual Transports connect(const std::string& key, const std::vector<int>& global_ranks, int rank,
                             std::shared_ptr<Watch> watch) = 0;
  /// Whether the process can go on after a rank has failed. If not, it can neither end in order nor
  /// use the library again; see Note [Leaving without a way back].
  virtual bool survives_failures() const = 0;
};

struct Job {
  Job() = default;
  ~Job() { failure->set_listener(nullptr); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank = 0, ranks = 1, local_rank = 0, local_ranks = 1;
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  std::unique_ptr<Control> control;
  std::unique_ptr<Fabric> fabric;
};

/// The world of a job whose fabric is there.
std::shared_ptr<ProcessGroup> make_world(std::shared_ptr<Job> job, const GroupOptions& options);

}  // namespace tensora::distributed
