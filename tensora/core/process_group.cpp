#include "tensora/core/process_group.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <numeric>
#include <utility>

#include "tensora/base/error_kinds.h"
#include "tensora/base/mutex.h"
#include "tensora/core/backend.h"
#include "tensora/core/rank_state.h"

namespace tensora {
namespace {

// Ranks that are threads have a table each; that of a process is reached by all of its threads.
Mutex tables;

class FinishedWork final : public Work {
 public:
  void wait() override {}
  bool wait_for(double) override { return true; }
  bool done() override { return true; }
  void keep(std::shared_ptr<const void>) override {}
};

class GroupOfOne final : public ProcessGroup {
 public:
  using ProcessGroup::ProcessGroup;
  std::string_view backend() const override { return "none"; }
  using ProcessGroup::abort_group;
  void abort_group(const std::string&, int) override {}

 protected:
  WorkPtr start(const Collective&) override { return finished_work(); }
  std::shared_ptr<ProcessGroup> make_split(const std::string& name, int,
                                           const std::vector<int>&) override {
    return make_group_of_one(name, global_ranks()[0]);
  }
};

void check_views(CollectiveKind kind, const View& out, const View& in) {
  for (const View* view : {&out, &in})
    check_as<ValueError>(view->contiguous, name(kind), ": expected contiguous data, got shape ",
                         view->sizes, " with strides ", view->strides);
  check_as<TypeError>(in.dtype == out.dtype, name(kind), ": expected one dtype, got ", in.dtype,
                      " in and ", out.dtype, " out");
  check(in.device == out.device, name(kind), ": expected one device, got ", in.device, " in and ",
        out.device, " out");
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::reduce;
}

void check_reduction(CollectiveKind kind, ReduceOp op, DType dtype) {
  check_as<NotImplementedError>(contains(kComputingDTypes, dtype), name(kind),
                                ": arithmetic is not defined for ", dtype);
  const bool ordered = op == ReduceOp::minimum || op == ReduceOp::maximum;
  check_as<NotImplementedError>(!ordered || !is_complex(dtype), name(kind), ": ", name(op),
                                " is not defined for ", dtype);
  check_as<NotImplementedError>(op != ReduceOp::average || is_differentiable(dtype), name(kind),
                                ": an average needs a floating or complex dtype, got ", dtype);
}

int64_t total(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// What a group of one does: the only part of `in` is that of `out`.
void copy_part(const View& out, const View& in) {
  if (out.data == in.data || in.numel == 0 || in.device.is_meta()) return;
  copy_bytes(out.data, out.device, in.data, in.device, in.bytes());
}

std::string_view file_name(const char* path) {
  const std::string_view text = path;
  const size_t slash = text.rfind('/');
  return slash == std::string_view::npos ? text : text.substr(slash + 1);
}

}  // namespace

std::string_view name(CollectiveKind kind) {
  constexpr std::string_view names[] = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast",
      "reduce",     "barrier",        "split",      "send",       "recv"};
  return names[static_cast<size_t>(kind)];
}

std::string to_string(const CallSummary& call) {
  std::string text = concat(name(call.kind), "(");
  if (reduces(call.kind)) append(text, concat(name(call.op), ", "));
  if (call.kind != CollectiveKind::barrier && call.kind != CollectiveKind::split) {
    append(text, concat(call.dtype, ", "));
    if (call.with_counts)
      append(text, "counts per rank");
    else
      append(text, concat(call.count, call.count == 1 ? " element" : " elements"));
  }
  if (call.kind == CollectiveKind::broadcast || call.kind == CollectiveKind::reduce)
    append(text, concat(", root ", call.root));
  if (call.kind == CollectiveKind::send) append(text, concat(", to ", call.root));
  if (call.kind == CollectiveKind::recv) append(text, concat(", from ", call.root));
  append(text, ")");
  if (call.line) append(text, concat(", called in ", call.file, ":", call.line));
  return text;
}

CallSummary summary_of(const Collective& call) {
  CallSummary summary;
  summary.kind = call.kind;
  summary.op = call.op;
  summary.dtype = call.in.dtype;
  summary.with_counts = call.with_counts();
  summary.root = call.root;
  summary.count = call.count;
  summary.line = call.where.line();
  const std::string_view file = file_name(call.where.file_name());
  const size_t kept = std::min(file.size(), sizeof(summary.file) - 1);
  std::copy_n(file.data(), kept, summary.file);
  return summary;
}

std::string to_string(const Collective& call) { return to_string(summary_of(call)); }

ProcessGroup::ProcessGroup(std::string name, int rank, std::vector<int> global_ranks)
    : name_(std::move(name)), rank_(rank), global_ranks_(std::move(global_ranks)) {
  check(rank >= 0 && rank < size(), "process group ", name_, ": rank must be in [0, ", size(),
        "), got ", rank);
}

WorkPtr ProcessGroup::in_place(CollectiveKind kind, const View& data, ReduceOp op, int root,
                               CallMode mode, Where where) {
  check_views(kind, data, data);
  if (reduces(kind)) check_reduction(kind, op, data.dtype);
  check_as<ValueError>(root >= 0 && root < size(), tensora::name(kind), ": rank ", root,
                       " is not in a group of ", size());
  if (size() == 1 && skips_alone(data.device)) return finished_work();
  Collective call;
  call.kind = kind;
  call.op = op;
  call.mode = mode;
  call.root = root;
  call.count = data.numel;
  call.in = call.out = data;
  call.where = where;
  return start(call);
}

WorkPtr ProcessGroup::between(CollectiveKind kind, const View& out, const View& in, ReduceOp op,
                              CallMode mode, Where where) {
  check_views(kind, out, in);
  if (reduces(kind)) check_reduction(kind, op, in.dtype);
  const int64_t want_in = kind == CollectiveKind::reduce_scatter ? out.numel * size() : in.numel;
  const int64_t want_out = kind == CollectiveKind::all_gather   ? in.numel * size()
                           : kind == CollectiveKind::all_to_all ? in.numel
                                                                : out.numel;
  check_as<ValueError>(in.numel == want_in && out.numel == want_out, tensora::name(kind), ": ",
                       in.numel, " elements in and ", out.numel,
                       " elements out do not fit together for ", size(), " ranks");
  check_as<ValueError>(kind != CollectiveKind::all_to_all || in.numel % size() == 0,
                       tensora::name(kind), ": ", in.numel, " elements are no equal parts for ",
                       size(), " ranks; give the counts");
  if (size() == 1 && skips_alone(in.device)) {
    copy_part(out, in);
    return finished_work();
  }
  Collective call;
  call.kind = kind;
  call.op = op;
  call.mode = mode;
  call.count = in.numel;
  call.in = in;
  call.out = out;
  call.where = where;
  return start(call);
}

WorkPtr ProcessGroup::all_reduce(const View& data, ReduceOp op, CallMode mode, Where where) {
  return in_place(CollectiveKind::all_reduce, data, op, 0, mode, where);
}
WorkPtr ProcessGroup::reduce_scatter(const View& out, const View& in, ReduceOp op, CallMode mode,
                                     Where where) {
  return between(CollectiveKind::reduce_scatter, out, in, op, mode, where);
}
WorkPtr ProcessGroup::all_gather(const View& out, const View& in, CallMode mode, Where where) {
  return between(CollectiveKind::all_gather, out, in, ReduceOp::sum, mode, where);
}
WorkPtr ProcessGroup::all_to_all(const View& out, const View& in, CallMode mode, Where where) {
  return between(CollectiveKind::all_to_all, out, in, ReduceOp::sum, mode, where);
}
WorkPtr ProcessGroup::broadcast(const View& data, int root, CallMode mode, Where where) {
  return in_place(CollectiveKind::broadcast, data, ReduceOp::sum, root, mode, where);
}
WorkPtr ProcessGroup::reduce(const View& data, int root, ReduceOp op, CallMode mode, Where where) {
  return in_place(CollectiveKind::reduce, data, op, root, mode, where);
}

WorkPtr ProcessGroup::all_to_all(const View& out, std::span<const int64_t> out_counts,
                                 const View& in, std::span<const int64_t> in_counts, CallMode mode,
                                 Where where) {
  check_views(CollectiveKind::all_to_all, out, in);
  for (const auto& [counts, view, side] :
       {std::tuple(in_counts, &in, "in"), std::tuple(out_counts, &out, "out")}) {
    check_as<ValueError>(counts.size() == global_ranks_.size(), "all_to_all: expected ", size(),
                         " counts of elements ", side, ", got ", counts.size());
    check_as<ValueError>(std::ranges::all_of(counts, [](int64_t count) { return count >= 0; }),
                         "all_to_all: counts of elements ", side, " must not be negative");
    check_as<ValueError>(total(counts) == view->numel, "all_to_all: the counts of elements ", side,
                         " sum to ", total(counts), ", but there are ", view->numel);
  }
  check_as<ValueError>(
      in_counts[static_cast<size_t>(rank_)] == out_counts[static_cast<size_t>(rank_)],
      "all_to_all: a rank sends itself ", in_counts[static_cast<size_t>(rank_)],
      " elements and expects ", out_counts[static_cast<size_t>(rank_)]);
  if (size() == 1 && skips_alone(in.device)) {
    copy_part(out, in);
    return finished_work();
  }
  Collective call;
  call.kind = CollectiveKind::all_to_all;
  call.mode = mode;
  call.in = in;
  call.out = out;
  call.in_counts = in_counts;
  call.out_counts = out_counts;
  call.where = where;
  return start(call);
}

WorkPtr ProcessGroup::send(const View& data, int to, CallMode mode, Where where) {
  check_as<ValueError>(to != rank_, "send: rank ", to, " is the sender itself");
  return in_place(CollectiveKind::send, data, ReduceOp::sum, to, mode, where);
}
WorkPtr ProcessGroup::recv(const View& data, int from, CallMode mode, Where where) {
  check_as<ValueError>(from != rank_, "recv: rank ", from, " is the receiver itself");
  return in_place(CollectiveKind::recv, data, ReduceOp::sum, from, mode, where);
}

void ProcessGroup::barrier(Where where) {
  if (size() == 1) return;
  Collective call;
  call.mode = CallMode::blocking;
  call.where = where;
  start(call)->wait();
}

std::shared_ptr<ProcessGroup> ProcessGroup::split(int colour, int key, std::string_view name,
                                                  Where where) {
  const size_t ranks = global_ranks_.size();
  struct Wish {
    int64_t colour, key, name_hash;
  };
  const Wish mine{colour, key, static_cast<int64_t>(std::hash<std::string_view>()(name))};
  std::vector<Wish> wishes(ranks, mine);
  if (ranks > 1) {
    Collective call;
    call.kind = CollectiveKind::split;
    call.mode = CallMode::blocking;
    call.count = 3;
    call.in.data = const_cast<Wish*>(&mine);
    call.in.sizes = {3};
    call.in.strides = {1};
    call.in.dtype = kInt64;
    call.in.update();
    call.out = call.in;
    call.out.data = wishes.data();
    call.out.sizes = {3 * static_cast<int64_t>(ranks)};
    call.out.update();
    call.where = where;
    start(call)->wait();
  }
  const int number = splits_++;
  if (colour < 0) return nullptr;
  std::vector<int> members;
  for (size_t r = 0; r < ranks; ++r) {
    if (wishes[r].colour != colour) continue;
    check(wishes[r].name_hash == mine.name_hash, "split: rank ", global_ranks_[r],
          " gives the group of colour ", colour, " another name than \"", name, "\"");
    members.push_back(static_cast<int>(r));
  }
  std::ranges::stable_sort(members, [&](int a, int b) {
    return wishes[static_cast<size_t>(a)].key < wishes[static_cast<size_t>(b)].key;
  });
  const std::string called =
      name.empty() ? concat(name_, "/", number, ".", colour) : std::string(name);
  const int rank = static_cast<int>(std::ranges::find(members, rank_) - members.begin());
  std::shared_ptr<ProcessGroup> group =
      members.size() == 1 ? make_group_of_one(called, global_ranks_[static_cast<size_t>(rank_)])
                          : make_split(called, rank, members);
  group->set_options(options_);
  const std::lock_guard lock(tables);
  rank_state().groups[called] = group;
  return group;
}

WorkPtr finished_work() {
  static FinishedWork finished;
  return WorkPtr(WorkPtr(), &finished);
}

std::shared_ptr<ProcessGroup> make_group_of_one(std::string name, int global_rank) {
  return std::make_shared<GroupOfOne>(std::move(name), 0, std::vector<int>{global_rank});
}

std::shared_ptr<ProcessGroup> world() {
  const std::lock_guard lock(tables);
  std::shared_ptr<ProcessGroup>& group = rank_state().world;
  if (!group) group = make_group_of_one();
  return group;
}

void set_world(std::shared_ptr<ProcessGroup> group) {
  const std::lock_guard lock(tables);
  rank_state().world = std::move(group);
  rank_state().groups.clear();
}

std::shared_ptr<ProcessGroup> find_group(std::string_view name) {
  if (name.empty() || name == "world") return world();
  const std::lock_guard lock(tables);
  auto& groups = rank_state().groups;
  const auto found = groups.find(name);
  std::shared_ptr<ProcessGroup> group = found == groups.end() ? nullptr : found->second.lock();
  if (!group) {
    std::string known = "world";
    for (const auto& [other, weak] : groups)
      if (!weak.expired()) append(known, concat(", ", other));
    fail("no process group is named \"", name, "\"; there are: ", known);
  }
  return group;
}

}  // namespace tensora
