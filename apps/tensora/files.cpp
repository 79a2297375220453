#include "files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "commands.h"
#include "tensora/base/check.h"
#include "tensora/io/atomic_file.h"

namespace tensora::cli {
namespace {

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, CloseFile>;

}  // namespace

std::string read_file(const std::string& path) {
  const File opened(path == "-" ? nullptr : std::fopen(path.c_str(), "rb"));
  FILE* file = path == "-" ? stdin : opened.get();
  check(file != nullptr, path, ": cannot be opened: ", std::strerror(errno));
  std::string out;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), file))
    out.append(buffer, count);
  check(std::ferror(file) == 0, path, ": cannot be read: ", std::strerror(errno));
  return out;
}

void write_file(const std::string& path, std::string_view text) {
  if (path != "-") {
    io::AtomicFile file(path);
    file.write(text);
    return file.commit();
  }
  const bool done =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!done && errno == EPIPE) return;  // a reader like `head` has seen enough
  check(done, path, ": cannot be written: ", std::strerror(errno));
}

void check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty() || path == "-") return;
  std::error_code ignored;
  check(!fs::is_directory(path, ignored), path, ": cannot be written: it is a folder");
  const std::string folder = fs::path(path).parent_path();
  const bool is_writable = access((folder.empty() ? "." : folder + "/.").c_str(), W_OK) == 0;
  check(is_writable, path, ": cannot be written: ", std::strerror(errno));
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

int64_t parse_size(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const int shift = unit.empty() ? 0 : unit == "k" || unit == "K" ? 10 : unit == "M" ? 20 : 30;
  const bool known = shift < 30 || unit == "G";
  if (error != std::errc() || !known || value < 0 || value > (INT64_MAX >> shift))
    throw UsageError("expected a size such as 500k, 4M or 1G, got '" + text + "'");
  return value << shift;
}

}  // namespace tensora::cli
