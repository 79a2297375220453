#include "download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/base/sha256.h"
#include "tensora/io/byte_reader.h"

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
    // A link that somebody else put there could name any file of ours.
    descriptor_ =
        ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    check(descriptor_ >= 0, path_, ": cannot be written: ", std::strerror(errno));
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      fail(path_, ": is not a regular file");
    }
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
    const bool is_empty =
        ::ftruncate(descriptor_, 0) == 0 && ::lseek(descriptor_, 0, SEEK_SET) == 0;
    check(is_empty, path_, ": cannot be written: ", std::strerror(errno));
    sum_ = {};
    size_ = 0;
  }
  void rename_to(const std::string& path) {
    const bool is_on_disk = ::fsync(descriptor_) == 0;
    check(is_on_disk, path_, ": cannot be written: ", std::strerror(errno));
    fs::rename(path_, path);
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  Sha256 sum_;
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

/// PATH.part.etag: the server's name for the version that PATH.part holds a part of, and the
/// address.
struct PartTag {
  std::string tag, address;

  static PartTag read(const std::string& path) {
    PartTag out;
    std::ifstream stream(path);
    std::getline(stream, out.tag);
    std::getline(stream, out.address);
    return out;
  }
  void write(const std::string& path) const {
    const int file =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    check(file >= 0, path, ": cannot be written: ", std::strerror(errno));
    const std::string text = tag + "\n" + address + "\n";
    const bool done = ::write(file, text.data(), text.size()) == ssize_t(text.size());
    const int reason = errno;
    ::close(file);
    check(done, path, ": cannot be written: ", std::strerror(reason));
  }
};

/// The headers of one answer.
struct Answer {
  std::string tag = {};
  std::optional<uint64_t> length = {}, starts_at = {}, total = {};  // the last two: Content-Range
  bool is_html = false;
  bool has_end = true;  // false: the body ends where the connection does, broken or not
};

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
  /// The part here belongs to another version of the file.
  bool is_stale() const { return stale_; }
  /// Fewer bytes have arrived than the file has.
  bool is_short() const { return total_ && part_.size() < *total_; }
  /// Whether a broken connection would have been noticed.
  bool has_end() const { return total_.has_value() || answer_.has_end; }
  std::exception_ptr failure;  // in a callback: exceptions must not cross C

 private:
  void header(std::string line);
  bool begin();
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
  std::string tag_, sha256_;
  Answer answer_;
  std::optional<uint64_t> total_;
  bool asked_for_part_ = false, began_ = false, stale_ = false;
  const CurlLibrary& library_ = CurlLibrary::get();
  CURL* curl_;
  curl_slist* headers_ = nullptr;
  char error_[CURL_ERROR_SIZE] = {};
};

void Request::header(std::string line) {
  if (line.starts_with("HTTP/")) {
    answer_ = {.has_end = !line.starts_with("HTTP/1")};
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string key = lower(line.substr(0, colon)), value = bare(line.substr(colon + 1));
  if (key == "etag") answer_.tag = value;
  if (key == "x-linked-etag" && is_sha256(lower(value))) sha256_ = lower(value);
  if (key == "content-type") answer_.is_html = lower(value).starts_with("text/html");
  if (key == "transfer-encoding") answer_.has_end = true;
  if (key == "content-length") answer_.length = std::strtoull(value.c_str(), nullptr, 10);
  if (key == "content-range" && value.starts_with("bytes")) {  // bytes 5-9/10
    const size_t slash = value.find('/');
    answer_.starts_at = std::strtoull(value.c_str() + 5, nullptr, 10);
    if (slash != value.npos && value.substr(slash + 1) != "*")
      answer_.total = std::strtoull(value.c_str() + slash + 1, nullptr, 10);
  }
}

/// Called before the first byte is kept. False if the part that is here cannot be continued.
bool Request::begin() {
  began_ = true;
  const long code = status();
  check(code == 200 || code == 206, options_.address, ": the server answered ", code);
  check(!answer_.is_html || options_.path.ends_with(".html") || options_.path.ends_with(".htm"),
        options_.address, ": the server sent a web page (text/html) instead of the file");
  if (code == 206) {
    check(asked_for_part_, options_.address,
          ": the server sent a part of the file, though all of it was asked for");
    const bool other = !tag_.empty() && !answer_.tag.empty() && answer_.tag != tag_;
    stale_ = other || answer_.starts_at != part_.size();
    if (stale_) return false;
    total_ = answer_.total;
  } else {
    // A server that does not know ranges, or whose file is another one by now, sends all of it.
    part_.clear();
    total_ = answer_.length;
  }
  tag_ = answer_.tag;
  PartTag{tag_, options_.address}.write(part_.path() + ".etag");
  return true;
}

void Request::contents(const char* data, size_t count) {
  if (stale_ || (!began_ && !begin())) return;
  part_.append(data, count);
  check(!total_ || part_.size() <= *total_, options_.address, ": the server sent more than the ",
        total_.value_or(0), " bytes that the file has");
  if (options_.progress) options_.progress(part_.size(), total_.value_or(0));
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
  asked_for_part_ = part_.size() > 0;
  if (asked_for_part_) {
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
        const size_t kept = request->guarded(size * n, [&] { request->contents(data, size * n); });
        return request->stale_ ? 0 : kept;  // 0 ends the transfer
      });
  const CURLcode code = library_.easy_perform(curl_);
  if (failure) std::rethrow_exception(failure);
  if (code == CURLE_OK && !began_) begin();  // there was no body at all
  return code;
}

/// Whether it is worth asking once more.
bool is_passing(CURLcode code, long status) {
  if (code == CURLE_HTTP_RETURNED_ERROR) return status == 429 || status >= 500;
  return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_OPERATION_TIMEDOUT || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
         code == CURLE_PARTIAL_FILE || code == CURLE_GOT_NOTHING;
}

/// One file on its way: the part that is here, and what is known about the whole.
class Download {
 public:
  explicit Download(const DownloadOptions& options)
      : options_(options), part_(options.path + ".part"), tag_path_(options.path + ".part.etag") {
    PartTag known = PartTag::read(tag_path_);
    if (known.address == options.address)
      tag_ = std::move(known.tag);
    else if (!known.address.empty())
      part_.clear();  // of another file
  }

  Downloaded run(const std::string& wanted);

 private:
  void fetch();
  void remove() const {
    std::error_code ignored;
    fs::remove(part_.path(), ignored);
    fs::remove(tag_path_, ignored);
  }
  void start_again() {
    part_.clear();
    tag_.clear();
  }
  std::string mistake(const std::string& expected) const;

  const DownloadOptions& options_;
  PartFile part_;
  std::string tag_path_, tag_, announced_;
  bool has_end_ = true;
};

/// Fetches what is missing, with further attempts where the connection breaks.
void Download::fetch() {
  for (int attempt = 1;; ++attempt) {
    Request request(options_, part_, tag_);
    CURLcode code = request.run();
    if (code == CURLE_OK && request.is_short()) code = CURLE_PARTIAL_FILE;
    tag_ = request.tag();
    has_end_ = request.has_end();
    if (!request.sha256().empty()) announced_ = request.sha256();
    if (code == CURLE_OK && !request.is_stale()) return;
    // 416: there is more here than the file has, so it is another file.
    const bool other =
        request.is_stale() || (code == CURLE_HTTP_RETURNED_ERROR && request.status() == 416);
    if (other) start_again();
    if (attempt >= options_.attempts || !(other || is_passing(code, request.status()))) {
      const uint64_t kept = part_.size();
      if (kept == 0) remove();
      fail(options_.address, ": ", request.message(code),
           kept > 0 ? "; the same command goes on after the " + std::to_string(kept) +
                          " bytes that are here"
                    : std::string());
    }
    if (!other) std::this_thread::sleep_for(std::chrono::seconds(1 << std::min(attempt - 1, 4)));
  }
}

/// What is wrong with the file that has arrived; empty if nothing is.
std::string Download::mistake(const std::string& expected) const {
  const std::string sum = part_.sha256();
  if (!expected.empty() && expected != sum)
    return "the SHA-256 must be " + expected + ", got " + sum;
  if (part_.size() == 0) return "the server sent an empty file";
  if (expected.empty() && !has_end_ && !options_.validate)
    return "the server names neither the length nor a checksum, so nobody can tell whether the "
           "file is complete; give its SHA-256";
  try {
    if (options_.validate) options_.validate(part_.path());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

Downloaded Download::run(const std::string& wanted) {
  Downloaded result{.resumed_from = part_.size()};
  while (true) {
    fetch();
    const std::string& expected = wanted.empty() ? announced_ : wanted;
    const std::string wrong = mistake(expected);
    result.checked = !expected.empty();
    if (wrong.empty()) break;
    // The bytes from an earlier call may be those of another file: fetch all of it, once.
    if (std::exchange(result.resumed_from, 0) > 0) {
      start_again();
      continue;
    }
    remove();
    fail(options_.address, ": ", wrong, "; the file was removed");
  }
  result.bytes = part_.size();
  result.sha256 = part_.sha256();
  part_.rename_to(options_.path);
  fs::remove(tag_path_);
  return result;
}

}  // namespace

Downloaded download(const DownloadOptions& options) {
  const std::string wanted = lower(options.sha256);
  check(wanted.empty() || is_sha256(wanted), "a SHA-256 has 64 hexadecimal digits, got '",
        options.sha256, "'");
  if (const fs::path folder = fs::path(options.path).parent_path(); !folder.empty())
    fs::create_directories(folder);
  CurlLibrary::get().global_init(CURL_GLOBAL_DEFAULT);
  return Download(options).run(wanted);
}

#else

Downloaded download(const DownloadOptions&) {
  fail("this program was built without libcurl and cannot download");
}

#endif

}  // namespace tensora::cli
