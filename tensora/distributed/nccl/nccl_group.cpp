// libtensora_nccl.so: see tensora/distributed/nccl_library.h.

#include <atomic>
#include <deque>
#include <map>
#include <thread>

#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/distributed/nccl/nccl_api.h"
#include "tensora/distributed/nccl_library.h"

namespace tensora::distributed {
namespace {

// Communicators of one device must be used in the same order on all ranks; one thread at a time
// launches.
std::mutex launches;

constexpr uint64_t kComparedCalls = 100;  // of each group, through the control channel

class NcclWork final : public Work {
 public:
  NcclWork(cuda::Event done, std::shared_ptr<Failure> failure)
      : done_(std::move(done)), failure_(std::move(failure)) {}

  void wait() override {
    failure_->rethrow_if_happened();
    cuda::Stream::current(done_.device()).wait(done_);
  }
  bool wait_for(double seconds) override {
    const auto until = Watch::Clock::now() + std::chrono::duration<double>(seconds);
    while (!done_.is_done()) {
      failure_->rethrow_if_happened();
      if (Watch::Clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    failure_->rethrow_if_happened();
    return true;
  }
  bool done() override { return done_.is_done() || failure_->happened(); }
  // The memory returns to its allocator in the order of the current stream.
  void keep(std::shared_ptr<const void>) override {
    cuda::Stream::current(done_.device()).wait(done_);
  }

 private:
  cuda::Event done_;
  std::shared_ptr<Failure> failure_;
};

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(std::shared_ptr<ProcessGroup> host, const std::string& key, Device device,
            const NcclJob& job)
      : ProcessGroup(host->name(), host->rank(), host->global_ranks()),
        host_(std::move(host)),
        key_(key),
        device_(device),
        job_(job),
        stream_(device) {
    NcclId id{};
    if (rank() == 0) {
      require(nccl().unique_id(&id), "ncclGetUniqueId");
      if (size() > 1) job_.control->put(key_ + "/nccl", std::string(id.bytes, sizeof id.bytes));
    } else {
      const std::string text = job_.control->get(key_ + "/nccl", job_.join_limit);
      std::copy_n(text.data(), std::min(text.size(), sizeof id.bytes), id.bytes);
    }
    NcclConfig config;
    const cuda::StreamGuard on_device(stream_);
    const int begun = nccl().init(&comm_, size(), id, rank(), &config);
    check(begun == kNcclSuccess || begun == kNcclInProgress, "nccl: group ", name(),
          " could not be made: ", nccl().error_text(begun));
    settle("ncclCommInitRankConfig", job_.join_limit);
    watcher_ = std::thread([this] { watch(); });
  }

  ~NcclGroup() override {
    stopping_ = true;
    watcher_.join();
    const std::lock_guard lock(launches);
    if (!comm_) return;
    // After a failure the others may be gone, and a destruction in order would wait for them.
    if (job_.failure->happened())
      nccl().abort_comm(comm_);
    else
      nccl().destroy(comm_);
  }

  std::string_view backend() const override { return "nccl"; }
  using ProcessGroup::abort_group;
  void abort_group(const std::string& reason, int rank) override {
    job_.failure->set(rank < 0 ? std::make_exception_ptr(GroupError(reason))
                               : std::make_exception_ptr(RankFailedError(rank, reason)));
  }

 protected:
  bool skips_alone(Device device) const override { return !device.is_cuda(); }

  WorkPtr start(const Collective& call) override {
    if (!call.in.device.is_cuda()) return pass_to(*host_, call);
    check(call.in.device == device_, name(), ": this rank's GPU is ", device_, ", got a tensor on ",
          call.in.device);
    job_.failure->rethrow_if_happened();
    note(call);
    cuda::Event ready(device_), done(device_);
    const std::lock_guard lock(launches);
    check(comm_ != nullptr, "nccl: group ", name(), " was aborted");
    ready.record();
    stream_.wait(ready);
    launch(call);
    settle(std::string(tensora::name(call.kind)).c_str(), job_.join_limit);
    done.record(stream_);
    return std::make_shared<NcclWork>(std::move(done), job_.failure);
  }

  std::shared_ptr<ProcessGroup> make_split(const std::string& name, int rank,
                                           const std::vector<int>& members) override {
    std::string key = concat(key_, ".", name, "#", made_[{name, members}]++);
    for (int member : members)
      append(key, concat("-", global_ranks()[static_cast<size_t>(member)]));
    return std::make_shared<NcclGroup>(split_of(*host_, name, rank, members), key, device_, job_);
  }

 private:
  void require(int code, const char* call) const {
    check(code == kNcclSuccess, "nccl: ", call, " failed in group ", name(), ": ",
          nccl().error_text(code));
  }

  // A communicator that does not block finishes its calls in the background.
  void settle(const char* call, double seconds) {
    const auto until = Watch::Clock::now() + std::chrono::duration<double>(seconds);
    for (int tries = 0;; ++tries) {
      int state = kNcclSuccess;
      require(nccl().async_error(comm_, &state), "ncclCommGetAsyncError");
      if (state == kNcclSuccess) return;
      if (state != kNcclInProgress) require(state, call);
      job_.failure->rethrow_if_happened();
      if (Watch::Clock::now() >= until)
        throw GroupTimeoutError(
            concat("nccl: ", call, " did not begin in group ", name(), " within ", seconds, " s"));
      if (tries > 1000) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  void accept(int code, const char* call) const {
    if (code != kNcclInProgress) require(code, call);
  }

  void launch(const Collective& call) {
    const NcclApi& api = nccl();
    void* const on = stream_.handle();
    const View &in = call.in, &out = call.out;
    const size_t bytes = in.bytes();
    constexpr int byte = 1;  // where data only move
    const size_t parts = is_complex(in.dtype) ? 2 : 1;
    const auto numbers = [&](const View& view) { return static_cast<size_t>(view.numel) * parts; };
    switch (call.kind) {
      case CollectiveKind::all_reduce:
        return accept(
            api.all_reduce(in.data, out.data, numbers(in), nccl_dtype(in.dtype, call.kind),
                           nccl_op(call.op, in.dtype), comm_, on),
            "ncclAllReduce");
      case CollectiveKind::reduce:
        return accept(api.reduce(in.data, out.data, numbers(in), nccl_dtype(in.dtype, call.kind),
                                 nccl_op(call.op, in.dtype), call.root, comm_, on),
                      "ncclReduce");
      case CollectiveKind::reduce_scatter:
        return accept(
            api.reduce_scatter(in.data, out.data, numbers(out), nccl_dtype(in.dtype, call.kind),
                               nccl_op(call.op, in.dtype), comm_, on),
            "ncclReduceScatter");
      case CollectiveKind::all_gather:
        return accept(api.all_gather(in.data, out.data, bytes, byte, comm_, on), "ncclAllGather");
      case CollectiveKind::broadcast:
        return accept(api.broadcast(in.data, out.data, bytes, byte, call.root, comm_, on),
                      "ncclBroadcast");
      case CollectiveKind::send:
        return accept(api.send(in.data, bytes, byte, call.root, comm_, on), "ncclSend");
      case CollectiveKind::recv:
        return accept(api.recv(out.data, bytes, byte, call.root, comm_, on), "ncclRecv");
      case CollectiveKind::all_to_all:
        return exchange(call, on);
      case CollectiveKind::barrier:
      case CollectiveKind::split:
        fail_internal("nccl: ", tensora::name(call.kind), " belongs to the host");
    }
  }

  void exchange(const Collective& call, void* on) {
    const NcclApi& api = nccl();
    const std::vector<int64_t> even(static_cast<size_t>(size()), call.in.numel / size());
    const auto ins = call.with_counts() ? call.in_counts : std::span<const int64_t>(even);
    const auto outs = call.with_counts() ? call.out_counts : std::span<const int64_t>(even);
    const size_t element = element_size(call.in.dtype);
    char *from = call.in.as<char>(), *to = call.out.as<char>();
    accept(api.group_start(), "ncclGroupStart");
    for (int r = 0; r < size(); ++r) {
      const size_t sent = static_cast<size_t>(ins[static_cast<size_t>(r)]) * element;
      const size_t got = static_cast<size_t>(outs[static_cast<size_t>(r)]) * element;
      if (sent) accept(api.send(from, sent, 1, r, comm_, on), "ncclSend");
      if (got) accept(api.recv(to, got, 1, r, comm_, on), "ncclRecv");
      from += sent;
      to += got;
    }
    accept(api.group_end(), "ncclGroupEnd");
  }

  // The first calls of a group are compared by the watching thread, which does not hold them up.
  void note(const Collective& call) {
    const bool pair = call.kind == CollectiveKind::send || call.kind == CollectiveKind::recv;
    if (pair || size() == 1) return;
    const std::lock_guard lock(noted_mutex_);
    if (calls_++ < kComparedCalls) noted_.push_back(summary_of(call));
  }

  void compare(uint64_t number, const CallSummary& mine) {
    const std::string key = concat(key_, "/call", number, "/");
    job_.control->put(concat(key, rank()),
                      std::string(reinterpret_cast<const char*>(&mine), sizeof mine));
    for (int r = 0; r < size() && !stopping_; ++r) {
      if (r == rank()) continue;
      CallSummary theirs;
      const std::string text = job_.control->get(concat(key, r), 3600);
      if (text.size() != sizeof theirs) continue;
      std::copy_n(text.data(), text.size(), reinterpret_cast<char*>(&theirs));
      if (!theirs.agrees_with(mine))
        throw RankMismatchError(concat("group ", name(),
                                       ": the ranks called different things: rank ",
                                       global_ranks()[static_cast<size_t>(std::min(r, rank()))],
                                       " ", to_string(r < rank() ? theirs : mine), "; rank ",
                                       global_ranks()[static_cast<size_t>(std::max(r, rank()))],
                                       " ", to_string(r < rank() ? mine : theirs)));
    }
  }

  // Aborts the communicator when a rank has failed: NCCL itself has no limit of time.
  void watch() {
    uint64_t compared = 0;
    while (!stopping_) {
      try {
        std::optional<CallSummary> next;
        {
          const std::lock_guard lock(noted_mutex_);
          if (!noted_.empty()) {
            next = noted_.front();
            noted_.pop_front();
          }
        }
        if (next)
          compare(compared++, *next);
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
      } catch (...) {
        job_.failure->set(std::current_exception());
      }
      if (!job_.failure->happened()) continue;
      const std::lock_guard lock(launches);
      if (comm_) nccl().abort_comm(comm_);
      comm_ = nullptr;
      return;
    }
  }

  std::shared_ptr<ProcessGroup> host_;
  const std::string key_;
  const Device device_;
  NcclJob job_;
  cuda::Stream stream_;
  NcclComm comm_ = nullptr;
  std::map<std::pair<std::string, std::vector<int>>, int> made_;
  std::mutex noted_mutex_;
  std::deque<CallSummary> noted_;
  uint64_t calls_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread watcher_;
};

}  // namespace
}  // namespace tensora::distributed

extern "C" int tensora_nccl_abi() { return tensora::distributed::kNcclAbi; }
extern "C" tensora::ProcessGroup* tensora_nccl_group(std::shared_ptr<tensora::ProcessGroup>* host,
                                                     tensora::Device device,
                                                     const tensora::distributed::NcclJob* job) {
  return new tensora::distributed::NcclGroup(*host, (*host)->name(), device, *job);
}
