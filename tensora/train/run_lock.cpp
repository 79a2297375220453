#include "tensora/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tensora/base/check.h"

namespace tensora::train {
namespace {

// The process that holds the lock wrote its number into the file.
std::string holder(int descriptor) {
  char digits[20];
  const ssize_t count = ::pread(descriptor, digits, sizeof(digits), 0);
  return count > 0 ? concat(" (process ", std::string_view(digits, size_t(count)), ")") : "";
}

}  // namespace

RunLock::RunLock(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check(!error, folder, ": cannot be created: ", error.message());
  const std::string path = folder + "/.lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  check(descriptor_ >= 0, path, ": cannot be opened for writing: ", std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    const std::string who = holder(descriptor_);
    // Some network file systems have no locks; a run must be possible there too.
    held_ = false;
    if (reason != EWOULDBLOCK && reason != EINTR) return;
    ::close(descriptor_);
    fail(folder, ": another process", who, " is training in this folder");
  }
  const std::string digits = std::to_string(::getpid());
  // The number only serves the message above.
  if (::ftruncate(descriptor_, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(descriptor_, digits.data(), digits.size(), 0);
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace tensora::train
