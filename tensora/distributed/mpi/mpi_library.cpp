// libtensora_mpi.so: see tensora/distributed/mpi_library.h.

#include "tensora/distributed/mpi_library.h"

#include <cstring>

#include "tensora/base/settings.h"
#include "tensora/distributed/local.h"
#include "tensora/distributed/mpi/mpi_calls.h"
#include "tensora/distributed/window_transport.h"

namespace tensora::distributed {
namespace {

/// The windows of a group on one host, in memory that MPI shares. It stays until MPI ends: freeing
/// a window is a collective call, for which the ranks need not be alive any more.
class SharedWindow {
 public:
  SharedWindow(MPI_Comm communicator, int rank, int ranks) {
    const size_t bytes = Windows::bytes(ranks);
    if (rank == 0) check_shared_memory(bytes * static_cast<size_t>(ranks));
    void* mine = nullptr;
    MPI_Win window;
    check_mpi(MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes + 4096), 1, MPI_INFO_NULL,
                                      communicator, &mine, &window),
              "MPI_Win_allocate_shared");
    for (int r = 0; r < ranks; ++r) {
      MPI_Aint length = 0;
      int unit = 0;
      void* base = nullptr;
      check_mpi(MPI_Win_shared_query(window, r, &length, &unit, &base), "MPI_Win_shared_query");
      bases_.push_back(aligned(base));
    }
    std::memset(aligned(mine), 0, bytes);
    check_mpi(MPI_Barrier(communicator), "MPI_Barrier");
  }
  const std::vector<void*>& bases() const { return bases_; }

 private:
  // The segments of one host are mapped as a whole: an address's offset within its page is the same
  // for all ranks.
  static void* aligned(void* base) {
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(base) + 4095) / 4096 * 4096);
  }
  std::vector<void*> bases_;
};

class MpiFabric final : public Fabric {
 public:
  MpiFabric() { check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup"); }
  std::string_view backend() const override { return "mpi"; }
  bool survives_failures() const override { return false; }

  Transports connect(const std::string&, const std::vector<int>& global_ranks, int rank,
                     std::shared_ptr<Watch> watch) override {
    const int ranks = static_cast<int>(global_ranks.size());
    MPI_Group all, members;
    MPI_Comm communicator, messages, host;
    check_mpi(MPI_Comm_group(world_, &all), "MPI_Comm_group");
    check_mpi(MPI_Group_incl(all, ranks, global_ranks.data(), &members), "MPI_Group_incl");
    check_mpi(MPI_Comm_create_group(world_, members, 0, &communicator), "MPI_Comm_create_group");
    check_mpi(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host),
              "MPI_Comm_split_type");
    int on_host = 0;
    MPI_Comm_size(host, &on_host);
    if (on_host == ranks && switch_setting("TENSORA_MPI_WINDOWS", true)) {
      const SharedWindow window(host, rank, ranks);
      const auto make = [windows = Windows(rank, window.bases())](std::shared_ptr<Watch> of) {
        return make_window_transport(windows, std::move(of));
      };
      return {make(std::move(watch)), make};
    }
    check_mpi(MPI_Comm_dup(communicator, &messages), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(messages, MPI_ERRORS_RETURN);
    const auto make = [communicator, messages](std::shared_ptr<Watch> of) {
      return make_mpi_transport(communicator, messages, std::move(of));
    };
    return {make(std::move(watch)), make};
  }

 private:
  MPI_Comm world_ = MPI_COMM_NULL;
};

class Library final : public MpiLibrary {
 public:
  void start() override {
    int running = 0, given = 0;
    MPI_Initialized(&running);
    if (!running) {
      check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given), "MPI_Init_thread");
      started_ = true;
    } else {
      MPI_Query_thread(&given);
    }
    check(given == MPI_THREAD_MULTIPLE,
          "init: this MPI does not allow calls of several threads (MPI_THREAD_MULTIPLE)");
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host_),
              "MPI_Comm_split_type");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  int rank() override { return number(MPI_Comm_rank, MPI_COMM_WORLD); }
  int ranks() override { return number(MPI_Comm_size, MPI_COMM_WORLD); }
  int local_rank() override { return number(MPI_Comm_rank, host_); }
  int local_ranks() override { return number(MPI_Comm_size, host_); }

  std::string broadcast(const std::string& text) override {
    int length = static_cast<int>(text.size());
    check_mpi(MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    std::string result = text;
    result.resize(static_cast<size_t>(length));
    check_mpi(MPI_Bcast(result.data(), length, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return result;
  }

  std::unique_ptr<Fabric> make_fabric() override { return std::make_unique<MpiFabric>(); }

  void finish() override {
    int ended = 0;
    MPI_Finalized(&ended);
    if (started_ && !ended) MPI_Finalize();
  }

 private:
  static int number(int (*ask)(MPI_Comm, int*), MPI_Comm communicator) {
    int value = 0;
    check_mpi(ask(communicator, &value), "MPI_Comm");
    return value;
  }
  bool started_ = false;
  MPI_Comm host_ = MPI_COMM_NULL;
};

}  // namespace
}  // namespace tensora::distributed

extern "C" int tensora_mpi_abi() { return tensora::distributed::kMpiAbi; }
extern "C" tensora::distributed::MpiLibrary* tensora_mpi() {
  static tensora::distributed::Library library;
  return &library;
}
