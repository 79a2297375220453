#include "tensora/train/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tensora/base/check.h"

namespace tensora::train {
namespace {

// False on an error, which errno names.
bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

AppendFile::AppendFile(std::string path) : path_(std::move(path)) {
  open();
  ::unlink(temporary_path().c_str());  // of a writer that was killed in `replace`
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::open() {
  const int opened = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  check(opened >= 0, path_, ": cannot be opened for writing: ", std::strerror(errno));
  struct stat status {};
  if (::fstat(opened, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(opened);
    fail(path_, ": is not a regular file");
  }
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = opened;
  size_ = status.st_size;
}

void AppendFile::append(std::string_view bytes) {
  if (!write_all(descriptor_, bytes)) {
    const int reason = errno;
    // A torn piece would spoil the next one.
    [[maybe_unused]] const int cut = ::ftruncate(descriptor_, size_);
    fail(path_, ": cannot be written to: ", std::strerror(reason));
  }
  size_ += static_cast<int64_t>(bytes.size());
}

std::string AppendFile::read() const {
  std::string out(static_cast<size_t>(size_), '\0');
  size_t at = 0;
  while (at < out.size()) {
    const ssize_t count =
        ::pread(descriptor_, out.data() + at, out.size() - at, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, path_, ": cannot be read: ", std::strerror(errno));
    if (count == 0) break;
    at += static_cast<size_t>(count);
  }
  out.resize(at);
  return out;
}

void AppendFile::truncate(int64_t size) {
  const bool is_cut = ::ftruncate(descriptor_, size) == 0;
  check(is_cut, path_, ": cannot be shortened: ", std::strerror(errno));
  size_ = size;
}

void AppendFile::replace(std::string_view bytes) {
  const std::string fresh = temporary_path();
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  check(file >= 0, fresh, ": cannot be opened for writing: ", std::strerror(errno));
  bool done = write_all(file, bytes);
  int reason = errno;
  if (::close(file) != 0 && done) {
    done = false;
    reason = errno;
  }
  if (done && std::rename(fresh.c_str(), path_.c_str()) == 0) return open();
  if (done) reason = errno;
  ::unlink(fresh.c_str());
  fail(path_, ": cannot be replaced: ", std::strerror(reason));
}

int64_t kept_lines(std::string_view text, const std::function<bool(std::string_view)>& keep) {
  size_t at = 0;
  while (true) {
    const size_t end = text.find('\n', at);
    if (end == text.npos || !keep(text.substr(at, end - at))) return static_cast<int64_t>(at);
    at = end + 1;
  }
}

}  // namespace tensora::train
