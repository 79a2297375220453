#pragma once

#include <string>
#include <vector>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

/// A call that a fake group was asked for.
struct FakeCall {
  std::string group;
  int ranks;
  CollectiveKind kind;
  ReduceOp op;
  DType dtype;
  int64_t count;  // elements that this rank contributes
  int root;
  Device device = {};
};

/// Sees the calls of a fake world as they are made and waited for. Calls are numbered from 0.
class FakeListener {
 public:
  virtual ~FakeListener() = default;
  virtual void on_call(size_t number, const FakeCall& call) = 0;
  virtual void on_wait(size_t number) = 0;
};

/// What a fake world and its parts have in common.
struct FakeLog {
  std::vector<FakeCall> calls;
  FakeListener* listener = nullptr;
};

/// A group of any size of which this process is one rank and the others do not exist. Calls return
/// at once; meta tensors have shapes only, and on real ones all ranks are taken to have the same
/// values. What the others would say to `split` is not known, so it throws; `part` makes
/// sub-groups.
class FakeGroup final : public ProcessGroup {
 public:
  FakeGroup(std::string name, int rank, std::vector<int> global_ranks,
            std::shared_ptr<FakeLog> log);

  std::string_view backend() const override { return "fake"; }
  /// The calls so far of this group and of those split from it.
  const std::vector<FakeCall>& log() const { return log_->calls; }
  /// Null: nobody listens.
  void set_listener(FakeListener* listener) { log_->listener = listener; }
  using ProcessGroup::abort_group;
  void abort_group(const std::string& reason, int rank) override;
  /// The part of this group that has these ranks, this one among them.
  std::shared_ptr<FakeGroup> part(const std::string& name, const std::vector<int>& members);

 protected:
  WorkPtr start(const Collective& call) override;
  std::shared_ptr<ProcessGroup> make_split(const std::string& name, int rank,
                                           const std::vector<int>& members) override;

 private:
  std::shared_ptr<FakeLog> log_;
  std::string failure_;
};

/// A fake world; pass it to `set_world` for programs that ask for the world.
std::shared_ptr<FakeGroup> make_fake_world(int rank, int ranks);

}  // namespace tensora::distributed
