#include "tensora/distributed/local.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>

#include "tensora/distributed/window_transport.h"

namespace tensora::distributed {
namespace {

/// One rank's window, mapped into this process.
class SharedMemory {
 public:
  SharedMemory(const std::string& name, size_t bytes, bool create) : bytes_(bytes) {
    const int flags = create ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
    const int handle = ::shm_open(name.c_str(), flags | O_CLOEXEC, 0600);
    check(handle >= 0, "the shared memory ", name, " could not be ", create ? "made" : "opened",
          ": ", std::strerror(errno));
    // Reserves the pages, so that a full /dev/shm is an error here and not a signal later.
    const int error = create ? ::posix_fallocate(handle, 0, static_cast<off_t>(bytes)) : 0;
    if (error == 0) data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    const int map_error = errno;
    ::close(handle);
    if (error != 0 || data_ == MAP_FAILED) {
      if (create) ::shm_unlink(name.c_str());
      if (error == ENOSPC) check_shared_memory(bytes);
      fail("the shared memory ", name, " of ", bytes,
           " bytes could not be mapped: ", std::strerror(error ? error : map_error));
    }
  }
  ~SharedMemory() {
    if (data_ != MAP_FAILED) ::munmap(data_, bytes_);
  }
  SharedMemory(SharedMemory&& other) noexcept
      : data_(std::exchange(other.data_, MAP_FAILED)), bytes_(other.bytes_) {}
  SharedMemory& operator=(SharedMemory&&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = MAP_FAILED;
  size_t bytes_;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<std::vector<SharedMemory>> memory, int rank,
                 std::shared_ptr<Watch> watch)
      : memory_(std::move(memory)) {
    std::vector<void*> bases;
    for (const SharedMemory& part : *memory_) bases.push_back(part.data());
    inner_ = make_window_transport(Windows(rank, std::move(bases)), std::move(watch));
  }
  void run(const Collective& call) override { inner_->run(call); }
  std::string describe() const override { return inner_->describe(); }

 private:
  std::shared_ptr<std::vector<SharedMemory>> memory_;
  std::unique_ptr<Transport> inner_;
};

// How the names of a job's memory begin.
std::string stem_of(std::string_view token) {
  std::string stem = "tensora-";
  for (const char c : token.substr(0, 40))
    stem += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return stem + "-";
}

class LocalFabric final : public Fabric {
 public:
  LocalFabric(Control& control, std::string stem, double seconds)
      : control_(control), stem_(std::move(stem)), seconds_(seconds) {}

  std::string_view backend() const override { return "local"; }
  bool survives_failures() const override { return true; }

  Transports connect(const std::string& key, const std::vector<int>& global_ranks, int rank,
                     std::shared_ptr<Watch> watch) override {
    const size_t ranks = global_ranks.size(), place = static_cast<size_t>(rank);
    const size_t bytes = Windows::bytes(static_cast<int>(ranks));
    const std::string stem = concat("/", stem_, std::hash<std::string>()(key), "-");
    const std::string mine = concat(stem, rank);
    auto memory = std::make_shared<std::vector<SharedMemory>>();
    SharedMemory own(mine, bytes, true);
    // The name goes when all have opened it, or this rank gives up.
    struct Named {
      const std::string& name;
      ~Named() { ::shm_unlink(name.c_str()); }
    } const named{mine};
    control_.meet(concat(key, "/made"), ranks, place, seconds_);
    for (size_t r = 0; r < place; ++r) memory->emplace_back(concat(stem, r), bytes, false);
    memory->push_back(std::move(own));
    for (size_t r = place + 1; r < ranks; ++r) memory->emplace_back(concat(stem, r), bytes, false);
    control_.meet(concat(key, "/opened"), ranks, place, seconds_);
    const auto make = [memory, rank](std::shared_ptr<Watch> of) -> std::unique_ptr<Transport> {
      return std::make_unique<LocalTransport>(memory, rank, std::move(of));
    };
    return {make(std::move(watch)), make};
  }

 private:
  Control& control_;
  const std::string stem_;
  const double seconds_;
};

}  // namespace

void check_shared_memory(size_t bytes) {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0) return;
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  check(free >= bytes, "/dev/shm has ", free >> 20, " MiB left, and the ranks of this host need ",
        (bytes >> 20) + 1,
        " MiB of it. In a container start it with more, such as docker run --shm-size=1g");
}

std::unique_ptr<Fabric> make_local_fabric(Control& control, std::string_view token,
                                          std::string_view word, double seconds) {
  return std::make_unique<LocalFabric>(control, concat(stem_of(token), word, "-"), seconds);
}

void remove_shared_memory(std::string_view token) {
  const std::string stem = stem_of(token);
  std::error_code ignored;
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored))
    if (const std::string name = entry.path().filename(); name.starts_with(stem))
      left.push_back(name);
  for (const std::string& name : left) ::shm_unlink(concat("/", name).c_str());
}

}  // namespace tensora::distributed
