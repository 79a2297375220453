#include "tensora/distributed/window_transport.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tensora/distributed/combine.h"

namespace tensora::distributed {
namespace {

// Note [Pieces through a window]
// A call is cut into pieces of up to 2 MiB, which stay in the processor's cache on their way from
// one rank to another. For each piece a rank copies what others need into its slot and raises
// `posted`; when all have done so, it reads theirs. A reduction of a large piece has a second step:
// each rank combines one slice of the piece, from all slots, puts the result where its own part was
// (nobody else reads that), raises `summed`, and copies the other slices when all have. There are
// two slots, used in turn: whoever posts piece p + 2 has seen all ranks post p + 1, and a rank does
// that only when it has read what it needs of piece p. With a piece travels the summary of its
// call. Each rank compares all of them before it uses a number, so a disagreement is found at once,
// by all ranks, in every call.

// An empty view may have no address.
void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

constexpr int64_t kSmall = 16 << 10;  // bytes up to which every rank combines all by itself

class WindowTransport final : public Transport {
 public:
  WindowTransport(Windows windows, std::shared_ptr<Watch> watch)
      : windows_(std::move(windows)),
        watch_(std::move(watch)),
        ranks_(windows_.size()),
        me_(windows_.rank()) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    ::sched_getaffinity(0, sizeof cores, &cores);
    windows_.mine().cores = cores;  // in one step: another transport of this rank may have done so
  }

  void run(const Collective& call) override {
    watch_->begin(call);
    summary_ = summary_of(call);
    element_ = static_cast<int64_t>(element_size(call.in.dtype));
    switch (call.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce:
        return all_reduce(call);
      case CollectiveKind::reduce_scatter:
        return reduce_scatter(call);
      case CollectiveKind::all_gather:
      case CollectiveKind::split:
        return all_gather(call);
      case CollectiveKind::all_to_all:
        return call.with_counts() ? exchange_with_counts(call) : exchange(call);
      case CollectiveKind::broadcast:
        return broadcast(call);
      case CollectiveKind::barrier:
        return meet();
      case CollectiveKind::send:
        return send(call);
      case CollectiveKind::recv:
        return recv(call);
    }
  }

  std::string describe() const override { return "memory that the ranks of one host share"; }

 private:
  // Ranks that share cores must not keep each other from running by spinning: all of them together
  // need as many cores as there are ranks. Known when all ranks have made their transports.
  void decide_spins() {
    cpu_set_t all = windows_.mine().cores;
    for (int r = 0; r < ranks_; ++r) CPU_OR(&all, &all, &windows_.of(r).cores);
    spins_ = CPU_COUNT(&all) >= ranks_ ? 400 : 0;  // about 20 µs of `pause`
  }

  char* slot(int rank) const { return windows_.of(rank).slots[piece_ & 1]; }
  char* my_slot() const { return slot(me_); }

  template <Signal WindowHeader::*signal>
  void wait_for_all() {
    for (int r = 0; r < ranks_; ++r) {
      Signal& theirs = windows_.of(r).*signal;
      for (int spin = 0; spin < spins_ && !theirs.reached(piece_ + 1); ++spin) _mm_pause();
      while (!theirs.reached(piece_ + 1)) {
        theirs.sleep_before(piece_ + 1);
        if (!theirs.reached(piece_ + 1)) watch_->look(missing<signal>());
      }
    }
  }
  template <Signal WindowHeader::*signal>
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int r = 0; r < ranks_; ++r)
      if (!(windows_.of(r).*signal).reached(piece_ + 1)) ranks.push_back(r);
    return ranks;
  }

  // This rank's part of the piece lies in its slot; waits for those of the others.
  void post() {
    WindowHeader& mine = windows_.mine();
    mine.calls[piece_ & 1] = summary_;
    mine.posted.raise_to(piece_ + 1);
    wait_for_all<&WindowHeader::posted>();
    if (piece_ == 0) decide_spins();
    for (int r = 0; r < ranks_; ++r)
      if (!windows_.of(r).calls[piece_ & 1].agrees_with(summary_)) [[unlikely]]
        throw_mismatch();
  }
  [[noreturn]] void throw_mismatch() {
    const CallSummary& first = windows_.of(0).calls[piece_ & 1];
    int other = 1;
    while (windows_.of(other).calls[piece_ & 1].agrees_with(first)) ++other;
    const auto& numbers = watch_->global_ranks();
    throw RankMismatchError(concat("group ", watch_->group(),
                                   ": the ranks called different things: rank ", numbers[0], " ",
                                   to_string(first), "; rank ", numbers[static_cast<size_t>(other)],
                                   " ", to_string(windows_.of(other).calls[piece_ & 1])));
  }
  void meet() {
    post();
    ++piece_;
  }

  void all_reduce(const Collective& call) {
    const int64_t bytes = call.in.numel * element_;
    if (bytes <= kSmall) return all_reduce_small(call);
    // Slices of whole cache lines, so that two ranks never write to the same one.
    const int64_t piece = static_cast<int64_t>(WindowHeader::kSlotBytes);
    for (int64_t at = 0; at < bytes; at += piece)
      all_reduce_piece(call, at, std::min(piece, bytes - at));
  }

  void all_reduce_small(const Collective& call) {
    copy(my_slot(), call.in.data, call.in.bytes());
    post();
    parts_.clear();
    for (int r = 0; r < ranks_; ++r) parts_.push_back(slot(r));
    void* const out = call.out.data;
    if (call.out.numel > 0) combine(call.op, call.in.dtype, parts_, {&out, 1}, call.out.numel);
    ++piece_;
  }

  std::pair<int64_t, int64_t> slice(int rank, int64_t bytes) const {
    const int64_t whole = (bytes + ranks_ - 1) / ranks_, lines = (whole + 63) / 64 * 64;
    const int64_t begin = std::min(bytes, lines * rank);
    return {begin, std::min(bytes, begin + lines) - begin};
  }

  void all_reduce_piece(const Collective& call, int64_t at, int64_t bytes) {
    char* const data = call.in.as<char>() + at;
    for (int r = 0; r < ranks_; ++r) {
      const auto [begin, length] = slice(r, bytes);
      if (r != me_) copy(my_slot() + begin, data + begin, static_cast<size_t>(length));
    }
    post();
    const auto [begin, length] = slice(me_, bytes);
    parts_.clear();
    for (int r = 0; r < ranks_; ++r) parts_.push_back((r == me_ ? data : slot(r)) + begin);
    void* const outs[] = {data + begin, my_slot() + begin};
    if (length > 0) combine(call.op, call.in.dtype, parts_, outs, length / element_);
    windows_.mine().summed.raise_to(piece_ + 1);
    wait_for_all<&WindowHeader::summed>();
    for (int r = 0; r < ranks_; ++r) {
      const auto [from, count] = slice(r, bytes);
      if (r != me_) copy(data + from, slot(r) + from, static_cast<size_t>(count));
    }
    ++piece_;
  }

  // How many elements for each rank fit into a slot.
  int64_t share() const {
    return static_cast<int64_t>(WindowHeader::kSlotBytes) / ranks_ / 64 * 64 / element_;
  }

  // Puts elements [at, at + length) of each part into this rank's slot, one share per part.
  void stage_parts(const Collective& call, int64_t part, int64_t at, int64_t length) {
    for (int r = 0; r < ranks_; ++r)
      copy(my_slot() + r * share() * element_, call.in.as<char>() + (part * r + at) * element_,
           static_cast<size_t>(length * element_));
  }

  void reduce_scatter(const Collective& call) {
    const int64_t part = call.out.numel;
    int64_t at = 0;
    do {
      const int64_t length = std::min(share(), part - at);
      stage_parts(call, part, at, length);
      post();
      parts_.clear();
      for (int r = 0; r < ranks_; ++r) parts_.push_back(slot(r) + me_ * share() * element_);
      void* const out = call.out.as<char>() + at * element_;
      if (length > 0) combine(call.op, call.in.dtype, parts_, {&out, 1}, length);
      ++piece_;
      at += length;
    } while (at < part);
  }

  void all_gather(const Collective& call) {
    const int64_t part = static_cast<int64_t>(call.in.bytes());
    int64_t at = 0;
    do {
      const int64_t length = std::min(static_cast<int64_t>(WindowHeader::kSlotBytes), part - at);
      copy(my_slot(), call.in.as<char>() + at, static_cast<size_t>(length));
      post();
      for (int r = 0; r < ranks_; ++r) {
        char* const to = call.out.as<char>() + part * r + at;
        if (to != call.in.as<char>() + at) copy(to, slot(r), static_cast<size_t>(length));
      }
      ++piece_;
      at += length;
    } while (at < part);
  }

  void exchange(const Collective& call) {
    const int64_t part = call.in.numel / ranks_;
    int64_t at = 0;
    do {
      const int64_t length = std::min(share(), part - at);
      stage_parts(call, part, at, length);
      post();
      for (int r = 0; r < ranks_; ++r)
        copy(call.out.as<char>() + (part * r + at) * element_, slot(r) + me_ * share() * element_,
             static_cast<size_t>(length * element_));
      ++piece_;
      at += length;
    } while (at < part);
  }

  void exchange_with_counts(const Collective& call) {
    const int64_t longest = agree_on_counts(call);
    for (int64_t at = 0; at < longest; at += share()) {
      const auto length = [&](int64_t count) {
        return static_cast<size_t>(std::clamp<int64_t>(count - at, 0, share()) * element_);
      };
      int64_t begin = 0;
      for (size_t r = 0; r < call.in_counts.size(); begin += call.in_counts[r++])
        copy(my_slot() + static_cast<int64_t>(r) * share() * element_,
             call.in.as<char>() + (begin + at) * element_, length(call.in_counts[r]));
      post();
      begin = 0;
      for (size_t r = 0; r < call.out_counts.size(); begin += call.out_counts[r++])
        copy(call.out.as<char>() + (begin + at) * element_,
             slot(static_cast<int>(r)) + me_ * share() * element_, length(call.out_counts[r]));
      ++piece_;
    }
  }

  // Compares what each rank sends with what the others expect; returns the longest part of all.
  int64_t agree_on_counts(const Collective& call) {
    const size_t ranks = static_cast<size_t>(ranks_), row = ranks * sizeof(int64_t);
    copy(my_slot(), call.in_counts.data(), row);
    copy(my_slot() + row, call.out_counts.data(), row);
    post();
    const auto count = [&](size_t rank, bool out, size_t other) {
      int64_t value;
      copy(&value, slot(static_cast<int>(rank)) + (out ? row : 0) + other * sizeof value,
           sizeof value);
      return value;
    };
    int64_t longest = 0;
    for (size_t from = 0; from < ranks; ++from)
      for (size_t to = 0; to < ranks; ++to) {
        const int64_t sent = count(from, false, to), expected = count(to, true, from);
        if (sent != expected)
          throw RankMismatchError(concat("all_to_all: rank ", watch_->global_ranks()[from],
                                         " sends ", sent, " elements to rank ",
                                         watch_->global_ranks()[to], ", which expects ", expected));
        longest = std::max(longest, sent);
      }
    ++piece_;
    return longest;
  }

  void broadcast(const Collective& call) {
    const int64_t bytes = static_cast<int64_t>(call.in.bytes());
    int64_t at = 0;
    do {
      const int64_t length = std::min(static_cast<int64_t>(WindowHeader::kSlotBytes), bytes - at);
      char* const data = call.in.as<char>() + at;
      if (me_ == call.root) copy(my_slot(), data, static_cast<size_t>(length));
      post();
      if (me_ != call.root) copy(data, slot(call.root), static_cast<size_t>(length));
      ++piece_;
      at += length;
    } while (at < bytes);
  }

  void wait_for(Signal& signal, uint64_t target, int other) {
    if (spins_ == 0) decide_spins();
    for (int spin = 0; spin < spins_ && !signal.reached(target); ++spin) _mm_pause();
    while (!signal.reached(target)) {
      signal.sleep_before(target);
      if (!signal.reached(target)) watch_->look({other});
    }
  }

  void send(const Collective& call) {
    Mailbox& box = windows_.mailbox(me_, call.root);
    transfer(call, box, [&](char* data, size_t length, uint64_t number) {
      wait_for(box.emptied, number, call.root);
      box.call = summary_;
      copy(box.data, data, length);
      box.filled.raise_to(number + 1);
    });
  }

  void recv(const Collective& call) {
    Mailbox& box = windows_.mailbox(call.root, me_);
    transfer(call, box, [&](char* data, size_t length, uint64_t number) {
      wait_for(box.filled, number + 1, call.root);
      if (box.call.count != summary_.count || box.call.dtype != summary_.dtype) {
        const auto& numbers = watch_->global_ranks();
        throw RankMismatchError(
            concat("group ", watch_->group(), ": the ranks called different things: rank ",
                   numbers[static_cast<size_t>(call.root)], " ", to_string(box.call), "; rank ",
                   numbers[static_cast<size_t>(me_)], " ", to_string(summary_)));
      }
      copy(data, box.data, length);
      box.emptied.raise_to(number + 1);
    });
  }

  // The mailbox's own counters number its messages: the sender's side counts what it filled, the
  // receiver's what it emptied.
  template <class Move>
  void transfer(const Collective& call, Mailbox& box, const Move& move) {
    const bool sends = call.kind == CollectiveKind::send;
    uint64_t number = (sends ? box.filled : box.emptied).value.load(std::memory_order_relaxed);
    const size_t bytes = call.in.bytes();
    size_t at = 0;
    do {
      const size_t length = std::min(Mailbox::kBytes, bytes - at);
      move(call.in.as<char>() + at, length, number++);
      at += length;
    } while (at < bytes);
  }

  Windows windows_;
  std::shared_ptr<Watch> watch_;
  const int ranks_, me_;
  int spins_ = 0;
  uint64_t piece_ = 0;
  CallSummary summary_;
  int64_t element_ = 1;
  std::vector<const void*> parts_;
};

}  // namespace

std::unique_ptr<Transport> make_window_transport(Windows windows, std::shared_ptr<Watch> watch) {
  return std::make_unique<WindowTransport>(std::move(windows), std::move(watch));
}

}  // namespace tensora::distributed
