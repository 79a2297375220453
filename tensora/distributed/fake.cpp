#include "tensora/distributed/fake.h"

#include <algorithm>
#include <numeric>

#include "tensora/base/error_kinds.h"
#include "tensora/core/rank_state.h"
#include "tensora/distributed/combine.h"

namespace tensora::distributed {
namespace {

/// Was done when it was made, and tells when it is waited for.
class FakeWork final : public Work {
 public:
  FakeWork(std::shared_ptr<FakeLog> log, size_t number) : log_(std::move(log)), number_(number) {}
  void wait() override {
    if (log_->listener) log_->listener->on_wait(number_);
  }
  bool wait_for(double) override {
    wait();
    return true;
  }
  bool done() override { return true; }
  void keep(std::shared_ptr<const void>) override {}

 private:
  std::shared_ptr<FakeLog> log_;
  size_t number_;
};

}  // namespace

FakeGroup::FakeGroup(std::string name, int rank, std::vector<int> global_ranks,
                     std::shared_ptr<FakeLog> log)
    : ProcessGroup(std::move(name), rank, std::move(global_ranks)), log_(std::move(log)) {}

void FakeGroup::abort_group(const std::string& reason, int) { failure_ = reason; }

WorkPtr FakeGroup::start(const Collective& call) {
  if (!failure_.empty()) throw GroupError(failure_);
  check(call.kind != CollectiveKind::split,
        "split: the other ranks of a fake group do not exist; FakeGroup::part makes a sub-group");
  const size_t number = log_->calls.size();
  log_->calls.push_back({name(), size(), call.kind, call.op, call.in.dtype, call.in.numel,
                         call.root, call.in.device});
  if (log_->listener) log_->listener->on_call(number, log_->calls.back());
  const auto work = std::make_shared<FakeWork>(log_, number);
  if (call.in.device.is_meta() || call.kind == CollectiveKind::send ||
      call.kind == CollectiveKind::recv)
    return work;
  check(!call.with_counts(), "all_to_all: a fake group does not know the counts of other ranks");
  // All ranks give the same and get the same, but for what they get of others by their number.
  if (call.kind == CollectiveKind::all_to_all || call.kind == CollectiveKind::reduce_scatter) {
    const int64_t part = call.in.numel / size();
    View mine = call.in;
    mine.data = static_cast<char*>(call.in.data) + bytes_of(call.in.dtype, part * rank());
    mine.sizes = {part};
    mine.strides = {1};
    mine.update();
    Collective whole = call;
    whole.in = mine;
    whole.count = part;
    whole.kind = call.kind == CollectiveKind::all_to_all ? CollectiveKind::all_gather
                                                         : CollectiveKind::reduce;
    whole.root = 0;
    carry_out(std::vector<Collective>(static_cast<size_t>(size()), whole));
  } else if (call.kind != CollectiveKind::barrier) {
    carry_out(std::vector<Collective>(static_cast<size_t>(size()), call));
  }
  return work;
}

std::shared_ptr<ProcessGroup> FakeGroup::make_split(const std::string& name, int,
                                                    const std::vector<int>& members) {
  return part(name, members);
}

std::shared_ptr<FakeGroup> FakeGroup::part(const std::string& name,
                                           const std::vector<int>& members) {
  std::vector<int> ranks;
  for (int member : members) {
    check_as<ValueError>(member >= 0 && member < size(), "part: rank ", member,
                         " is not in a group of ", size());
    ranks.push_back(global_ranks()[static_cast<size_t>(member)]);
  }
  const auto mine = std::ranges::find(members, rank());
  check_as<ValueError>(mine != members.end(), "part: rank ", rank(), " is not among the members");
  auto group = std::make_shared<FakeGroup>(name, static_cast<int>(mine - members.begin()),
                                           std::move(ranks), log_);
  rank_state().groups[name] = group;
  return group;
}

std::shared_ptr<FakeGroup> make_fake_world(int rank, int ranks) {
  check_as<ValueError>(ranks >= 1, "make_fake_world: expected at least one rank, got ", ranks);
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return std::make_shared<FakeGroup>("world", rank, std::move(all), std::make_shared<FakeLog>());
}

}  // namespace tensora::distributed
