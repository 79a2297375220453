#pragma once

// Ranks that compute together, and the calls by which they exchange data. A backend of this
// interface moves memory: it knows views and queues, neither tensors nor ops. Sizes are counts of
// elements, never bytes.

#include <array>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/core/view.h"

namespace tensora {

/// How the values of the ranks are combined, element by element. `average` divides their sum by
/// their number, in one multiplication at the end.
enum class ReduceOp : uint8_t { sum, average, product, minimum, maximum };
constexpr std::array<std::string_view, 5> names_of(std::type_identity<ReduceOp>) {
  return {"sum", "average", "product", "minimum", "maximum"};
}
inline std::string_view name(ReduceOp op) {
  return names_of(std::type_identity<ReduceOp>{})[static_cast<size_t>(op)];
}

enum class CollectiveKind : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  reduce,
  barrier,
  split,
  send,
  recv,
};
std::string_view name(CollectiveKind kind);

/// A group failed: a rank died or threw, ranks disagree about a call, or a limit has passed. Every
/// later call of the group throws the same.
class GroupError : public Error {
 public:
  using Error::Error;
};
/// A rank of the group is gone. `rank()` counts in the world.
class RankFailedError : public GroupError {
 public:
  RankFailedError(int rank, const std::string& message) : GroupError(message), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};
/// The ranks called different things.
class RankMismatchError : public GroupError {
 public:
  using GroupError::GroupError;
};
/// A call did not finish within the group's limit.
class GroupTimeoutError : public GroupError {
 public:
  using GroupError::GroupError;
};

/// A call that this rank has begun.
class Work {
 public:
  virtual ~Work() = default;
  /// Makes this thread's current queue wait for the call; where the memory is the host's, this
  /// thread itself waits. Throws the error of the call.
  virtual void wait() = 0;
  /// The host waits for at most that long. False if the call is not done yet; throws its error.
  virtual bool wait_for(double seconds) = 0;
  /// Whether the call is over, well or not. Does not wait.
  virtual bool done() = 0;
  /// Keeps the memory of a call that the caller gives up for as long as any rank may use it.
  virtual void keep(std::shared_ptr<const void> memory) = 0;
  /// How long the call took, from the moment that all ranks had come; 0 while it is not known.
  virtual double seconds() { return 0; }
};
using WorkPtr = std::shared_ptr<Work>;

/// Whether a call returns as soon as it is queued, or may keep the calling thread until it is done,
/// which takes less time in all. Either way `Work::wait` has to be called before the result is
/// used.
enum class CallMode : uint8_t { asynchronous, blocking };

/// One call as a backend gets it: checked, with contiguous views of one dtype and device.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  ReduceOp op = ReduceOp::sum;
  CallMode mode = CallMode::asynchronous;
  int root = 0;       // of broadcast and reduce; the other rank of send and recv
  int64_t count = 0;  // elements that every rank contributes, as far as the ranks must agree on it
  View in, out;       // the same memory where the call works in place
  std::span<const int64_t> in_counts, out_counts;  // of all_to_all with counts, else empty
  std::source_location where;

  bool with_counts() const { return !in_counts.empty(); }
};

/// What the ranks must agree on in a call, and where it was made; a plain value that can be shared.
struct CallSummary {
  CollectiveKind kind = CollectiveKind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::float32;
  bool with_counts = false;
  int32_t root = 0;
  int64_t count = 0;
  uint32_t line = 0;
  char file[44] = {};

  bool agrees_with(const CallSummary& other) const {
    return kind == other.kind && op == other.op && dtype == other.dtype &&
           with_counts == other.with_counts && root == other.root && count == other.count;
  }
};
CallSummary summary_of(const Collective& call);
/// "all_reduce(sum, float32, 1024 elements), called in train.cpp:80"
std::string to_string(const CallSummary& call);
std::string to_string(const Collective& call);

struct GroupOptions {
  double limit = 600;      // seconds after which a call that does not end is an error; 0: never
  double warn_after = 20;  // seconds after which a warning names the ranks that have not come
};

/// A set of ranks. All ranks of a group make the same calls in the same order; `send` and `recv`
/// are matched by pairs of ranks. The memory of a call belongs to it until its Work is done.
class ProcessGroup {
 public:
  ProcessGroup(std::string name, int rank, std::vector<int> global_ranks);
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(global_ranks_.size()); }
  const std::string& name() const { return name_; }
  /// The world's number of each rank of the group.
  const std::vector<int>& global_ranks() const { return global_ranks_; }
  /// "threads", "mpi", …; "none" for a group of one.
  virtual std::string_view backend() const = 0;

  using Where = std::source_location;
  /// Combines `data` of all ranks, in place.
  WorkPtr all_reduce(const View& data, ReduceOp op = ReduceOp::sum,
                     CallMode mode = CallMode::asynchronous, Where where = Where::current());
  /// `in` has one part of out.numel elements per rank; rank r gets the combination of all parts r.
  WorkPtr reduce_scatter(const View& out, const View& in, ReduceOp op = ReduceOp::sum,
                         CallMode mode = CallMode::asynchronous, Where where = Where::current());
  /// `out` gets `in` of all ranks, one after the other. `in` may be this rank's part of `out`.
  WorkPtr all_gather(const View& out, const View& in, CallMode mode = CallMode::asynchronous,
                     Where where = Where::current());
  /// Part r of `in` goes to rank r; part r of `out` comes from rank r. All parts are equally long.
  WorkPtr all_to_all(const View& out, const View& in, CallMode mode = CallMode::asynchronous,
                     Where where = Where::current());
  /// The same with parts of given counts.
  WorkPtr all_to_all(const View& out, std::span<const int64_t> out_counts, const View& in,
                     std::span<const int64_t> in_counts, CallMode mode = CallMode::asynchronous,
                     Where where = Where::current());
  WorkPtr broadcast(const View& data, int root, CallMode mode = CallMode::asynchronous,
                    Where where = Where::current());
  /// Rank `root` gets the combination; what the others have in `data` afterwards is unspecified.
  WorkPtr reduce(const View& data, int root, ReduceOp op = ReduceOp::sum,
                 CallMode mode = CallMode::asynchronous, Where where = Where::current());
  WorkPtr send(const View& data, int to, CallMode mode = CallMode::asynchronous,
               Where where = Where::current());
  WorkPtr recv(const View& data, int from, CallMode mode = CallMode::asynchronous,
               Where where = Where::current());
  /// Returns when all ranks have called it.
  void barrier(Where where = Where::current());
  /// A group of the ranks that give the same colour, ordered by key and then by rank; null for a
  /// rank with a negative colour. All ranks call it, with the same name.
  std::shared_ptr<ProcessGroup> split(int colour, int key = 0, std::string_view name = "",
                                      Where where = Where::current());

  /// Makes every call, under way or later, on every rank, throw this reason. `rank` is the one at
  /// fault, in the world; -1 if it is none. A group of one has nobody to tell.
  virtual void abort_group(const std::string& reason, int rank) = 0;
  void abort_group(const std::string& reason) { abort_group(reason, -1); }
  const GroupOptions& options() const { return options_; }
  virtual void set_options(const GroupOptions& options) { options_ = options; }

 protected:
  /// Begins a call; where the group has one rank, only if it does not skip such calls.
  virtual WorkPtr start(const Collective& call) = 0;
  virtual bool skips_alone(Device) const { return true; }
  /// Makes the group of a split; `members` are ranks of this group in their new order.
  virtual std::shared_ptr<ProcessGroup> make_split(const std::string& name, int rank,
                                                   const std::vector<int>& members) = 0;
  /// For a group that lets another one of the same ranks do a part of its work.
  static WorkPtr pass_to(ProcessGroup& other, const Collective& call) { return other.start(call); }
  static std::shared_ptr<ProcessGroup> split_of(ProcessGroup& other, const std::string& name,
                                                int rank, const std::vector<int>& members) {
    return other.make_split(name, rank, members);
  }

 private:
  WorkPtr in_place(CollectiveKind kind, const View& data, ReduceOp op, int root, CallMode mode,
                   Where where);
  WorkPtr between(CollectiveKind kind, const View& out, const View& in, ReduceOp op, CallMode mode,
                  Where where);

  std::string name_;
  int rank_;
  std::vector<int> global_ranks_;
  GroupOptions options_;
  int splits_ = 0;
};

/// The Work of a call that was done when it returned.
WorkPtr finished_work();

/// All ranks of the job; a group of one before `distributed::init`.
std::shared_ptr<ProcessGroup> world();
void set_world(std::shared_ptr<ProcessGroup> group);
/// The group that this rank knows by that name; "world" and "" are the world. Throws with the names
/// that there are.
std::shared_ptr<ProcessGroup> find_group(std::string_view name);
/// A group of this rank alone, whose calls copy or do nothing.
std::shared_ptr<ProcessGroup> make_group_of_one(std::string name = "world", int global_rank = 0);

}  // namespace tensora
