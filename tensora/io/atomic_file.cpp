#include "tensora/io/atomic_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "tensora/io/mapped_file.h"

namespace tensora::io {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = 1 << 16;
constexpr std::string_view kMarker = ".tmp-";

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

// Hidden, and with the process's number, so that a file left by a killed process can be told from
// one that is being written.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  const std::string name = fs::path(path).filename().string().substr(0, 200);
  return concat(folder_of(path), "/.", name, kMarker, static_cast<int>(getpid()), "-", count++);
}

std::string resolved(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target.string();
}

// The rename itself must survive a power failure.
bool sync_folder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  // Some file systems cannot do this for a folder, and say so.
  const bool done = fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP;
  close(descriptor);
  return done;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(resolved(path)) {
  check(!path.empty(), "the name of the file is empty");
  struct stat old {};
  const bool exists = stat(path.c_str(), &old) == 0;
  check(!exists || !S_ISDIR(old.st_mode), "'", path_, "' is a folder");
  if (exists && !S_ISREG(old.st_mode)) {
    path_ = path;
    descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail_with_errno("opened");
  } else {
    temporary_ = temporary_name(path_);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail_with_errno("created");
    if (exists) (void)fchmod(descriptor_, old.st_mode & 07777);
  }
  buffer_.reserve(kBufferBytes);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail_with_errno(std::string_view action) const {
  const std::string reason = std::generic_category().message(errno);
  fail("'", path_, "' could not be ", action, ": ", reason);
}

void AtomicFile::write(ConstBytes bytes) {
  position_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes)
    write_out(bytes);
  else
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void AtomicFile::flush() {
  write_out(bytes_of_text(buffer_));
  buffer_.clear();
}

void AtomicFile::write_out(ConstBytes bytes) {
  constexpr size_t most = size_t{1} << 30;  // the system writes less than 2 GiB at once
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), most));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("written");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  flush();
  const bool replaces = !temporary_.empty();
  if (replaces && fsync(descriptor_) != 0) fail_with_errno("written");
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) fail_with_errno("written");
  if (!replaces) return;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno("replaced");
  temporary_.clear();
  if (!sync_folder(folder_of(path_))) fail_with_errno("made durable");
}

void AtomicFile::remove_abandoned(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const size_t marker = name.rfind(kMarker);
    if (!name.starts_with(".") || marker == std::string::npos) continue;
    int process = 0;
    const char* digits = name.data() + marker + kMarker.size();
    if (std::from_chars(digits, name.data() + name.size(), process).ec != std::errc()) continue;
    if (process > 0 && kill(process, 0) != 0 && errno == ESRCH) fs::remove(entry.path(), error);
  }
}

void link_atomically(const std::string& path, const std::string& alias) {
  const std::string temporary = temporary_name(alias);
  if (link(path.c_str(), temporary.c_str()) != 0) {
    AtomicFile copy(alias);
    copy.write(MappedFile::open(path)->bytes());
    return copy.commit();
  }
  const bool renamed = rename(temporary.c_str(), alias.c_str()) == 0;
  const int reason = errno;
  // Renaming one name of a file to another of its names does nothing and leaves both.
  unlink(temporary.c_str());
  check(renamed, "'", alias, "' could not be replaced: ", std::generic_category().message(reason));
  sync_folder(folder_of(alias));
}

}  // namespace tensora::io
