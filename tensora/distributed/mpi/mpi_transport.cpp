#include <sched.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "tensora/distributed/combine.h"
#include "tensora/distributed/mpi/mpi_calls.h"

namespace tensora::distributed {
namespace {

// Note [Sums between hosts]
// MPI_Allreduce adds in an order of its own, knows neither bfloat16 nor float16, and gives wrong
// numbers in silence if ranks disagree about the call. Here MPI only moves bytes: each rank gets
// its slice of a piece from all others (all-to-all), adds in the order of ranks (Note [Sums in the
// order of ranks]), and gathers the slices of the others. That is the volume of a ring. Pieces of 2
// MiB keep counts small, however large the tensor is, and the sums in the cache. Before the first
// piece the ranks compare their calls.
constexpr int64_t kPiece = 2 << 20;

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm collectives, MPI_Comm messages, std::shared_ptr<Watch> watch)
      : communicator_(collectives), messages_(messages), watch_(std::move(watch)) {
    MPI_Comm_rank(communicator_, &me_);
    MPI_Comm_size(communicator_, &ranks_);
    for (int r = 0; r < ranks_; ++r)
      if (r != me_) others_.push_back(r);
  }

  void run(const Collective& call) override {
    watch_->begin(call);
    element_ = static_cast<int64_t>(element_size(call.in.dtype));
    if (call.kind == CollectiveKind::send) return send(call);
    if (call.kind == CollectiveKind::recv) return recv(call);
    compare_calls(call);
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
        return exchange(call);
      case CollectiveKind::broadcast:
        return broadcast(call);
      default:
        return;  // the comparison was the barrier
    }
  }

  std::string describe() const override { return "MPI between hosts"; }

 private:
  void finish(MPI_Request& request) { finish_request(request, *watch_, others_); }

  void compare_calls(const Collective& call) {
    const CallSummary mine = summary_of(call);
    summaries_.resize(static_cast<size_t>(ranks_));
    gather(&mine, summaries_.data(), sizeof mine);
    for (size_t r = 1; r < summaries_.size(); ++r)
      if (!summaries_[r].agrees_with(summaries_[0])) {
        const auto& numbers = watch_->global_ranks();
        throw RankMismatchError(concat(
            "group ", watch_->group(), ": the ranks called different things: rank ", numbers[0],
            " ", to_string(summaries_[0]), "; rank ", numbers[r], " ", to_string(summaries_[r])));
      }
  }

  void gather(const void* in, void* out, size_t bytes) {
    MPI_Request request;
    const int count = static_cast<int>(bytes);
    call_mpi("MPI_Iallgather", [&] {
      return MPI_Iallgather(in, count, MPI_BYTE, out, count, MPI_BYTE, communicator_, &request);
    });
    finish(request);
  }
  void swap(const void* in, void* out, int64_t bytes_per_rank) {
    MPI_Request request;
    const int count = static_cast<int>(bytes_per_rank);
    call_mpi("MPI_Ialltoall", [&] {
      return MPI_Ialltoall(in, count, MPI_BYTE, out, count, MPI_BYTE, communicator_, &request);
    });
    finish(request);
  }

  // Elements per rank of a piece.
  int64_t share() const { return std::max<int64_t>(1, kPiece / ranks_ / element_); }
  char* stage(std::vector<char>& buffer, int64_t per_rank) const {
    buffer.resize(static_cast<size_t>(per_rank * element_ * ranks_));
    return buffer.data();
  }

  // Combines what all ranks sent to this one, `length` elements each.
  void combine_received(ReduceOp op, DType dtype, const char* received, int64_t length, void* out) {
    parts_.clear();
    for (int r = 0; r < ranks_; ++r) parts_.push_back(received + length * element_ * r);
    if (length > 0) combine(op, dtype, parts_, {&out, 1}, length);
  }

  void all_reduce(const Collective& call) {
    const int64_t n = call.in.numel;
    for (int64_t at = 0; at < n; at += share() * ranks_) {
      const int64_t piece = std::min(share() * ranks_, n - at);
      const int64_t slice = (piece + ranks_ - 1) / ranks_;
      char* const staged = stage(staged_, slice);
      char* const received = stage(received_, slice);
      char* const data = call.in.as<char>() + at * element_;
      std::memcpy(staged, data, static_cast<size_t>(piece * element_));  // the last slice is padded
      swap(staged, received, slice * element_);
      char* const result = staged + slice * element_ * me_;
      combine_received(call.op, call.in.dtype, received, slice, result);
      gather(result, received, static_cast<size_t>(slice * element_));
      std::memcpy(data, received, static_cast<size_t>(piece * element_));
    }
  }

  void reduce_scatter(const Collective& call) {
    const int64_t part = call.out.numel;
    for (int64_t at = 0; at < part; at += share()) {
      const int64_t length = std::min(share(), part - at);
      char* const staged = stage(staged_, length);
      for (int r = 0; r < ranks_; ++r)
        std::memcpy(staged + length * element_ * r, call.in.as<char>() + (part * r + at) * element_,
                    static_cast<size_t>(length * element_));
      char* const received = stage(received_, length);
      swap(staged, received, length * element_);
      combine_received(call.op, call.in.dtype, received, length,
                       call.out.as<char>() + at * element_);
    }
  }

  void all_gather(const Collective& call) {
    const int64_t part = call.in.numel;
    for (int64_t at = 0; at < part; at += share()) {
      const int64_t length = std::min(share(), part - at);
      char* const received = stage(received_, length);
      gather(call.in.as<char>() + at * element_, received, static_cast<size_t>(length * element_));
      for (int r = 0; r < ranks_; ++r)
        std::memcpy(call.out.as<char>() + (part * r + at) * element_,
                    received + length * element_ * r, static_cast<size_t>(length * element_));
    }
  }

  // All-to-all, with counts or without: rounds of equal shares, as many as the longest part needs.
  void exchange(const Collective& call) {
    const int64_t even = call.in.numel / ranks_;
    const std::vector<int64_t> evens(static_cast<size_t>(ranks_), even);
    const auto in = call.with_counts() ? call.in_counts : std::span<const int64_t>(evens);
    const auto out = call.with_counts() ? call.out_counts : std::span<const int64_t>(evens);
    const int64_t longest = call.with_counts() ? agree_on_counts(call) : even;
    for (int64_t at = 0; at < longest; at += share()) {
      const int64_t round = std::min(share(), longest - at);
      char* const staged = stage(staged_, round);
      char* const received = stage(received_, round);
      const auto length = [&](int64_t count) {
        return static_cast<size_t>(std::clamp<int64_t>(count - at, 0, round) * element_);
      };
      int64_t begin = 0;
      for (size_t r = 0; r < in.size(); begin += in[r++])
        if (length(in[r]) > 0)
          std::memcpy(staged + round * element_ * static_cast<int64_t>(r),
                      call.in.as<char>() + (begin + at) * element_, length(in[r]));
      swap(staged, received, round * element_);
      begin = 0;
      for (size_t r = 0; r < out.size(); begin += out[r++])
        if (length(out[r]) > 0)
          std::memcpy(call.out.as<char>() + (begin + at) * element_,
                      received + round * element_ * static_cast<int64_t>(r), length(out[r]));
    }
  }

  int64_t agree_on_counts(const Collective& call) {
    const size_t ranks = static_cast<size_t>(ranks_);
    std::vector<int64_t> mine(call.in_counts.begin(), call.in_counts.end());
    mine.insert(mine.end(), call.out_counts.begin(), call.out_counts.end());
    std::vector<int64_t> all(mine.size() * ranks);
    gather(mine.data(), all.data(), mine.size() * sizeof(int64_t));
    int64_t longest = 0;
    for (size_t from = 0; from < ranks; ++from)
      for (size_t to = 0; to < ranks; ++to) {
        const int64_t sent = all[from * 2 * ranks + to];
        const int64_t expected = all[to * 2 * ranks + ranks + from];
        if (sent != expected)
          throw RankMismatchError(concat("all_to_all: rank ", watch_->global_ranks()[from],
                                         " sends ", sent, " elements to rank ",
                                         watch_->global_ranks()[to], ", which expects ", expected));
        longest = std::max(longest, sent);
      }
    return longest;
  }

  void broadcast(const Collective& call) {
    const int64_t bytes = static_cast<int64_t>(call.in.bytes());
    for (int64_t at = 0; at < bytes; at += kPiece) {
      MPI_Request request;
      const int length = static_cast<int>(std::min(kPiece, bytes - at));
      call_mpi("MPI_Ibcast", [&] {
        return MPI_Ibcast(call.in.as<char>() + at, length, MPI_BYTE, call.root, communicator_,
                          &request);
      });
      finish(request);
    }
  }

  void send(const Collective& call) {
    CallSummary summary = summary_of(call);
    transfer(call, &summary, [&](void* data, int bytes) {
      MPI_Request request;
      call_mpi("MPI_Isend",
               [&] { return MPI_Isend(data, bytes, MPI_BYTE, call.root, 0, messages_, &request); });
      finish_request(request, *watch_, {call.root});
    });
  }
  void recv(const Collective& call) {
    CallSummary summary;
    transfer(call, &summary, [&](void* data, int bytes) {
      MPI_Request request;
      call_mpi("MPI_Irecv",
               [&] { return MPI_Irecv(data, bytes, MPI_BYTE, call.root, 0, messages_, &request); });
      finish_request(request, *watch_, {call.root});
      if (summary.count != call.count || summary.dtype != call.in.dtype) {
        const auto& numbers = watch_->global_ranks();
        throw RankMismatchError(
            concat("group ", watch_->group(), ": the ranks called different things: rank ",
                   numbers[static_cast<size_t>(call.root)], " ", to_string(summary), "; rank ",
                   numbers[static_cast<size_t>(me_)], " ", to_string(call)));
      }
    });
  }
  // The call's summary, then the data in pieces.
  template <class Move>
  void transfer(const Collective& call, CallSummary* summary, const Move& move) {
    move(summary, static_cast<int>(sizeof *summary));
    const int64_t bytes = static_cast<int64_t>(call.in.bytes());
    for (int64_t at = 0; at < bytes; at += kPiece)
      move(call.in.as<char>() + at, static_cast<int>(std::min(kPiece, bytes - at)));
  }

  MPI_Comm communicator_, messages_;
  std::shared_ptr<Watch> watch_;
  int me_ = 0, ranks_ = 1;
  std::vector<int> others_;
  int64_t element_ = 1;
  std::vector<char> staged_, received_;
  std::vector<const void*> parts_;
  std::vector<CallSummary> summaries_;
};

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw GroupError(concat(call, ": ", std::string(text, static_cast<size_t>(length))));
}

void finish_request(MPI_Request& request, Watch& watch, const std::vector<int>& partners) {
  using Clock = Watch::Clock;
  auto next_look = Clock::now() + std::chrono::milliseconds(50);
  for (int done = 0, tries = 0;; ++tries) {
    call_mpi("MPI_Test", [&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
    if (done) return;
    // MPI makes progress in MPI_Test only, so this thread may yield but hardly sleep.
    if (tries > 200) ::sched_yield();
    if (tries > 20'000) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (tries % 64 == 63 && Clock::now() >= next_look) {
      watch.look(partners);
      next_look = Clock::now() + std::chrono::milliseconds(50);
    }
  }
}

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm collectives, MPI_Comm messages,
                                              std::shared_ptr<Watch> watch) {
  return std::make_unique<MpiTransport>(collectives, messages, std::move(watch));
}

}  // namespace tensora::distributed
