#include "download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/io/sha256.h"

#ifdef TENSORA_HAS_CURL
#include "curl_library.h"
#endif

namespace tensora::cli {

#ifdef TENSORA_HAS_CURL
namespace {

namespace fs = std::filesystem;

/// PATH.part: what has arrived so far, with its checksum. Another process that wants it waits for
/// nothing and is told so.
class PartFile {
 public:
  explicit PartFile(std::string path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    check(descriptor_ >= 0, path_, ": cannot be written: ", std::strerror(errno));
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      ::close(descriptor_);
      fail(path_, ": another process is downloading this file");
    }
    std::vector<uint8_t> buffer(1 << 20);
    for (ssize_t got = 0; (got = ::read(descriptor_, buffer.data(), buffer.size())) != 0;) {
      check(got > 0, path_, ": cannot be read: ", std::strerror(errno));
      sum_.update({buffer.data(), static_cast<size_t>(got)});
      size_ += static_cast<uint64_t>(got);
    }
  }
  ~PartFile() { ::close(descriptor_); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  std::string sha256() const { return sum_.hex(); }
  void append(const char* data, size_t count) {
    for (size_t done = 0; done < count;) {
      const ssize_t written = ::write(descriptor_, data + done, count - done);
      if (written < 0 && errno == EINTR) continue;
      check(written > 0, path_, ": cannot be written: ", std::strerror(errno));
      done += static_cast<size_t>(written);
    }
    sum_.update(io::bytes_of_text({data, count}));
    size_ += count;
  }
  void clear() {
    check(::ftruncate(descriptor_, 0) == 0 && ::lseek(descriptor_, 0, SEEK_SET) == 0, path_,
          ": cannot be written: ", std::strerror(errno));
    sum_ = {};
    size_ = 0;
  }
  void rename_to(const std::string& path) {
    check(::fsync(descriptor_) == 0, path_, ": cannot be written: ", std::strerror(errno));
    fs::rename(path_, path);
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  io::Sha256 sum_;
  uint64_t size_ = 0;
};

std::string lower(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return text;
}

/// An ETag or a checksum without quotes and blanks.
std::string bare(std::string text) {
  std::erase_if(text, [](char c) { return c == '"' || c == ' ' || c == '\r' || c == '\n'; });
  return text;
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// One request, and what the answers' headers said. Redirects bring several answers; the first
/// may name the file's checksum, the last has the contents.
class Request {
 public:
  Request(const DownloadOptions& options, PartFile& part, std::string tag)
      : options_(options), part_(part), tag_(std::move(tag)), curl_(library_.easy_init()) {
    check(curl_ != nullptr, "libcurl could not be started");
  }
  ~Request() {
    library_.slist_free_all(headers_);
    library_.easy_cleanup(curl_);
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  CURLcode run();
  long status() const {
    long code = 0;
    library_.easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }
  std::string message(CURLcode code) const {
    if (status() >= 400) return "the server answered " + std::to_string(status());
    return error_[0] ? error_ : library_.easy_strerror(code);
  }
  const std::string& tag() const { return tag_; }
  const std::string& sha256() const { return sha256_; }
  uint64_t total() const { return total_; }
  std::exception_ptr failure;  // in a callback: exceptions must not cross C

 private:
  void header(std::string line);
  void contents(const char* data, size_t count);
  template <class Body>
  size_t guarded(size_t count, const Body& body) {
    try {
      body();
      return count;
    } catch (...) {
      failure = std::current_exception();
      return 0;
    }
  }

  const DownloadOptions& options_;
  PartFile& part_;
  std::string tag_, sha256_, found_tag_;
  uint64_t total_ = 0, length_ = 0, starts_at_ = 0;
  bool began_ = false;
  const CurlLibrary& library_ = CurlLibrary::get();
  CURL* curl_;
  curl_slist* headers_ = nullptr;
  char error_[CURL_ERROR_SIZE] = {};
};

void Request::header(std::string line) {
  if (line.starts_with("HTTP/")) {
    found_tag_.clear();
    length_ = starts_at_ = 0;
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string key = lower(line.substr(0, colon)), value = bare(line.substr(colon + 1));
  if (key == "etag") found_tag_ = value;
  if (key == "x-linked-etag" && is_sha256(lower(value))) sha256_ = lower(value);
  if (key == "content-length") length_ = std::strtoull(value.c_str(), nullptr, 10);
  if (key == "content-range" && value.starts_with("bytes"))
    starts_at_ = std::strtoull(value.c_str() + 5, nullptr, 10);
}

void Request::contents(const char* data, size_t count) {
  if (!began_) {
    began_ = true;
    // A server that does not know ranges, or whose file is another one by now, sends all of it.
    if (status() != 206) {
      part_.clear();
      starts_at_ = 0;
    }
    check(starts_at_ == part_.size(), options_.address, ": asked for the bytes from ", part_.size(),
          " on, the server sent those from ", starts_at_);
    total_ = length_ > 0 ? starts_at_ + length_ : 0;
    tag_ = found_tag_;
    std::ofstream(part_.path() + ".etag") << tag_;
  }
  part_.append(data, count);
  if (options_.progress) options_.progress(part_.size(), total_);
}

CURLcode Request::run() {
  const auto set = [&](CURLoption option, auto value) {
    check(library_.easy_setopt(curl_, option, value) == CURLE_OK, "libcurl refuses an option");
  };
  const bool secure = options_.address.starts_with("https://");
  set(CURLOPT_URL, options_.address.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, secure ? "https" : "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
#else
  const long protocols = secure ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS;
  set(CURLOPT_PROTOCOLS, protocols);
  set(CURLOPT_REDIR_PROTOCOLS, protocols);
#endif
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 10L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, 30L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, 60L);
  set(CURLOPT_USERAGENT, "tensora");
  set(CURLOPT_ERRORBUFFER, error_);
  // A part can be continued only where it is sure to be a part of the same file.
  if (tag_.empty() && options_.sha256.empty()) part_.clear();
  if (part_.size() > 0) {
    headers_ = library_.slist_append(
        headers_, ("Range: bytes=" + std::to_string(part_.size()) + "-").c_str());
    if (!tag_.empty())
      headers_ = library_.slist_append(headers_, ("If-Range: \"" + tag_ + "\"").c_str());
  }
  set(CURLOPT_HTTPHEADER, headers_);
  set(CURLOPT_HEADERDATA, this);
  set(
      CURLOPT_HEADERFUNCTION, +[](char* data, size_t size, size_t n, void* self) -> size_t {
        auto* request = static_cast<Request*>(self);
        return request->guarded(size * n, [&] { request->header(std::string(data, size * n)); });
      });
  set(CURLOPT_WRITEDATA, this);
  set(
      CURLOPT_WRITEFUNCTION, +[](char* data, size_t size, size_t n, void* self) -> size_t {
        auto* request = static_cast<Request*>(self);
        return request->guarded(size * n, [&] { request->contents(data, size * n); });
      });
  const CURLcode code = library_.easy_perform(curl_);
  if (failure) std::rethrow_exception(failure);
  return code;
}

/// Whether it is worth asking once more.
bool is_passing(CURLcode code, long status) {
  if (code == CURLE_HTTP_RETURNED_ERROR) return status == 429 || status >= 500;
  return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_OPERATION_TIMEDOUT || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
         code == CURLE_PARTIAL_FILE || code == CURLE_GOT_NOTHING;
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream stream(path);
  std::getline(stream, line);
  return line;
}

}  // namespace

Downloaded download(const DownloadOptions& options) {
  const std::string wanted = lower(options.sha256), tag_path = options.path + ".part.etag";
  check(wanted.empty() || is_sha256(wanted), "a SHA-256 has 64 hexadecimal digits, got '",
        options.sha256, "'");
  if (const fs::path folder = fs::path(options.path).parent_path(); !folder.empty())
    fs::create_directories(folder);
  CurlLibrary::get().global_init(CURL_GLOBAL_DEFAULT);
  PartFile part(options.path + ".part");
  Downloaded result{.resumed_from = part.size()};
  std::string tag = first_line(tag_path), announced;
  for (int attempt = 1;; ++attempt) {
    Request request(options, part, tag);
    const CURLcode code = request.run();
    tag = request.tag();
    if (!request.sha256().empty()) announced = request.sha256();
    if (code == CURLE_OK) break;
    const bool beyond = code == CURLE_HTTP_RETURNED_ERROR && request.status() == 416;
    if (beyond) {  // there is more than the file has: it is another file
      part.clear();
      tag.clear();
    }
    if (attempt >= options.attempts || !(beyond || is_passing(code, request.status()))) {
      const uint64_t kept = part.size();
      if (kept == 0) fs::remove(part.path()), fs::remove(tag_path);
      fail(options.address, ": ", request.message(code),
           kept > 0 ? "; the same command goes on after the " + std::to_string(kept) +
                          " bytes that are here"
                    : std::string());
    }
    if (!beyond) std::this_thread::sleep_for(std::chrono::seconds(1 << std::min(attempt - 1, 4)));
  }
  result.bytes = part.size();
  result.sha256 = part.sha256();
  const std::string& expected = wanted.empty() ? announced : wanted;
  if (!expected.empty() && expected != result.sha256) {
    fs::remove(part.path());
    fs::remove(tag_path);
    fail(options.address, ": the SHA-256 must be ", expected, ", got ", result.sha256,
         "; the file was removed");
  }
  result.checked = !expected.empty();
  part.rename_to(options.path);
  fs::remove(tag_path);
  return result;
}

#else

Downloaded download(const DownloadOptions&) {
  fail("this program was built without libcurl and cannot download");
}

#endif

}  // namespace tensora::cli
