#pragma once

#include <map>
#include <memory>
#include <string>

#include "tensora/core/random.h"

namespace tensora {

class ProcessGroup;

/// What belongs to a rank and would otherwise belong to the process: with several ranks in one
/// process, each a thread, every one of them has its own.
struct RankState {
  Generator generator;                  // what default_generator() returns
  std::shared_ptr<ProcessGroup> world;  // null: a world of one
  std::map<std::string, std::weak_ptr<ProcessGroup>, std::less<>> groups;
};

/// The state of this thread's rank; that of the process outside a RankScope.
RankState& rank_state();

/// Makes this thread a rank while it lives.
class RankScope {
 public:
  explicit RankScope(RankState& state);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  RankState* previous_;
};

}  // namespace tensora
