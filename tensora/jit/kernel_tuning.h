#pragma once

// Internal header: which candidates of a kernel's tunables are fastest.

#include <mutex>

#include "tensora/jit/kernel_recording.h"

namespace tensora::jit {

// Note [Tuning on real calls]
// The first calls of a kernel with tunables run one combination of candidates each, and are timed;
// every combination gets two calls, of which the faster one counts. Nothing runs twice, so kernels
// that change their arguments can be tuned. The winner is kept for the process and in the kernel
// store, per dtypes and sizes (in powers of two), device, machine and number of threads. In
// deterministic mode the first candidates are used, and nothing is timed.
class Tuner {
 public:
  /// Which candidates a call uses.
  struct Turn {
    TunableChoice choice = {};
    int candidate = -1;  // -1: not timed
    bool known = false;  // the tunables of this signature are known
  };
  Turn begin(const std::string& signature);
  /// After the first recording with a signature. `text` is the program with the first candidates.
  Turn learn(const std::string& signature, const std::vector<Tunable>& tunables,
             const std::string& text, Device device);
  void end(const std::string& signature, const Turn& turn, double seconds);
  /// A candidate that cannot run.
  void drop(const std::string& signature, const Turn& turn);

 private:
  struct Entry {
    std::vector<TunableChoice> candidates;
    std::vector<double> seconds;
    std::vector<int> calls;  // that were timed
    size_t next = 0;
    int chosen = -1;
    std::string key, text;
  };
  static Turn turn_of(Entry& entry);
  static void settle(Entry& entry);

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace tensora::jit
