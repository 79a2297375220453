#include "tensora/jit/kernel_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>

#include "tensora/base/check.h"
#include "tensora/base/settings.h"
#include "tensora/base/sha256.h"
#include "tensora/jit/embedded.h"

namespace tensora::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "tensora kernel 1\n";  // changes with the format
constexpr std::string_view kSuffix = ".tk";
constexpr size_t kKeyDigits = 64;
constexpr uint64_t kLargestEntry = uint64_t{1} << 28;

bool is_key(std::string_view text) {
  return text.size() == kKeyDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Parts are preceded by their lengths: no two lists of parts give the same bytes.
void update(Sha256& hash, std::string_view part) {
  hash.update(concat(part.size(), ":"));
  hash.update(part);
}

std::string checksum_of(std::string_view key, const StoredKernel& kernel) {
  Sha256 hash;
  for (std::string_view part : {key, std::string_view(kernel.code), std::string_view(kernel.text),
                                std::string_view(kernel.description)})
    update(hash, part);
  update(hash, concat(kernel.compile_microseconds));
  return hash.hex();
}

// magic, key, checksum, three sizes and the time as decimal lines, then the parts.
std::string to_bytes(const std::string& key, const StoredKernel& kernel) {
  return concat(kMagic, key, "\n", checksum_of(key, kernel), "\n", kernel.code.size(), " ",
                kernel.text.size(), " ", kernel.description.size(), " ",
                kernel.compile_microseconds, "\n", kernel.code, kernel.text, kernel.description);
}

std::optional<std::string> read_file(const fs::path& path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (error || size > kLargestEntry) return {};
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) return {};
  return bytes;
}

std::optional<StoredKernel> from_bytes(const std::string& key, std::string_view bytes) {
  const auto line = [&]() -> std::string_view {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) return {};
    const std::string_view found = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    return found;
  };
  if (!bytes.starts_with(kMagic)) return {};
  bytes.remove_prefix(kMagic.size());
  if (line() != key) return {};
  const std::string sum(line()), sizes(line());
  unsigned long long code = 0, text = 0, description = 0, time = 0;
  if (std::sscanf(sizes.c_str(), "%llu %llu %llu %llu", &code, &text, &description, &time) != 4)
    return {};
  if (code > bytes.size() || text > bytes.size() || description > bytes.size() ||
      code + text + description != bytes.size())
    return {};
  StoredKernel kernel{.code = std::string(bytes.substr(0, code)),
                      .text = std::string(bytes.substr(code, text)),
                      .description = std::string(bytes.substr(code + text)),
                      .compile_microseconds = time};
  if (checksum_of(key, kernel) != sum) return {};
  return kernel;
}

fs::path path_of(const fs::path& folder, const std::string& key) {
  return folder / key.substr(0, 2) / (key + std::string(kSuffix));
}

// Empty if the folder belongs to this user alone.
std::string why_refused(const fs::path& folder) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0)
    return concat(folder.string(), " cannot be used: ", std::strerror(errno));
  if (!S_ISDIR(found.st_mode)) return concat(folder.string(), " is not a folder");
  if (found.st_uid != ::geteuid()) return concat(folder.string(), " belongs to another user");
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return concat("others may write to ", folder.string(), "; remove that permission");
  return {};
}

// What is missing of a path; for this user alone.
void make_folders(const fs::path& folder) {
  fs::path made;
  for (const fs::path& part : folder) {
    made /= part;
    ::mkdir(made.c_str(), S_IRWXU);
  }
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Calls body(path, key) for the entries of a folder.
template <class Body>
void each_entry(const fs::path& folder, Body&& body) {
  std::error_code error;
  for (const auto& part : fs::directory_iterator(folder, error))
    for (const auto& file : fs::directory_iterator(part.path(), error))
      if (file.path().extension() == kSuffix && is_key(file.path().stem().string()))
        body(file.path(), file.path().stem().string());
}

KernelStore::Options options_of_environment() {
  KernelStore::Options options;
  options.limit = bytes_setting("TENSORA_KERNEL_CACHE_LIMIT", 0, options.limit);
  options.shared = fs::path(path_setting("TENSORA_KERNEL_CACHE_SHARED"));
  const std::string_view named = path_setting("TENSORA_KERNEL_CACHE");
  if (named == "off") return options;
  if (!named.empty()) {
    options.folder = fs::path(named);
    return options;
  }
  const std::string_view cache = path_setting("XDG_CACHE_HOME"), home = path_setting("HOME");
  if (!cache.empty())
    options.folder = fs::path(cache) / "tensora/kernels/v1";
  else if (!home.empty())
    options.folder = fs::path(home) / ".cache/tensora/kernels/v1";
  return options;
}

}  // namespace

std::string key_of(const KernelSource& source) {
  Sha256 hash;
  update(hash, kMagic);
  update(hash, source.text);
  update(hash, source.architecture);
  update(hash, source.compiler);
  for (const std::string& option : source.options) update(hash, option);
  static const std::string headers = [] {
    Sha256 all;
    for (int i = 0; i < embedded_file_count; ++i) {
      update(all, embedded_files[i].name);
      update(all, embedded_files[i].text);
    }
    return all.hex();
  }();
  update(hash, headers);
  return hash.hex();
}

KernelStatistics& kernel_statistics() {
  static KernelStatistics statistics;
  return statistics;
}

KernelStore::KernelStore(Options options) : options_(std::move(options)) {
  if (options_.folder.empty()) {
    refusal_ = "no folder was named";
    return;
  }
  make_folders(options_.folder);
  refusal_ = why_refused(options_.folder);
}

std::optional<StoredKernel> KernelStore::find(const std::string& key) {
  ensure(is_key(key), "jit: '", key, "' is not the key of a kernel");
  for (const bool own : {true, false}) {
    if (own ? !refusal_.empty() : options_.shared.empty()) continue;
    const fs::path path = path_of(own ? options_.folder : options_.shared, key);
    const auto bytes = read_file(path);
    if (!bytes) continue;
    auto kernel = from_bytes(key, *bytes);
    if (!kernel) {
      ++kernel_statistics().damaged;
      continue;
    }
    std::error_code error;
    if (own) fs::last_write_time(path, fs::file_time_type::clock::now(), error);
    return kernel;
  }
  return {};
}

bool KernelStore::put(const std::string& key, const StoredKernel& kernel) {
  ensure(is_key(key), "jit: '", key, "' is not the key of a kernel");
  if (!refusal_.empty()) return false;
  const std::string bytes = to_bytes(key, kernel);
  if (bytes.size() > options_.limit) return false;
  evict(bytes.size());
  const fs::path path = path_of(options_.folder, key);
  ::mkdir(path.parent_path().c_str(), S_IRWXU);
  std::string temporary = path.string() + ".XXXXXX";
  const int file = ::mkstemp(temporary.data());
  if (file < 0) return false;
  bool written = write_all(file, bytes) && ::fsync(file) == 0;
  written = ::close(file) == 0 && written;
  if (written) written = ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) ::unlink(temporary.c_str());
  return written;
}

// Makes room for `needed` bytes; files that another process removes meanwhile are gone as well.
void KernelStore::evict(uint64_t needed) {
  std::vector<StoreEntry> entries = list();
  uint64_t total = needed;
  for (const StoreEntry& entry : entries) total += entry.bytes;
  if (total <= options_.limit) return;
  std::sort(entries.begin(), entries.end(),
            [](const StoreEntry& a, const StoreEntry& b) { return a.used < b.used; });
  for (const StoreEntry& entry : entries) {
    if (total <= options_.limit) break;
    std::error_code error;
    fs::remove(path_of(options_.folder, entry.key), error);
    total -= entry.bytes;
    ++kernel_statistics().evicted;
  }
}

std::vector<StoreEntry> KernelStore::list() const {
  std::vector<StoreEntry> entries;
  if (!refusal_.empty()) return entries;
  each_entry(options_.folder, [&](const fs::path& path, const std::string& key) {
    std::error_code error;
    StoreEntry entry{.key = key, .bytes = fs::file_size(path, error)};
    if (error) return;
    entry.used = fs::last_write_time(path, error);
    entries.push_back(entry);
  });
  return entries;
}

std::vector<std::string> KernelStore::verify() {
  std::vector<std::string> damaged;
  for (const StoreEntry& entry : list()) {
    const fs::path path = path_of(options_.folder, entry.key);
    const auto bytes = read_file(path);
    if (bytes && from_bytes(entry.key, *bytes)) continue;
    std::error_code error;
    fs::remove(path, error);
    damaged.push_back(entry.key);
  }
  return damaged;
}

size_t KernelStore::clear() {
  size_t removed = 0;
  for (const StoreEntry& entry : list()) {
    std::error_code error;
    removed += fs::remove(path_of(options_.folder, entry.key), error) ? 1 : 0;
  }
  return removed;
}

KernelStore& kernel_store() {
  static KernelStore store(options_of_environment());
  return store;
}

std::string stored_code(const KernelSource& source,
                        std::string (*compile)(const KernelSource& source)) {
  KernelStatistics& statistics = kernel_statistics();
  const std::string key = key_of(source);
  if (auto found = kernel_store().find(key)) {
    ++statistics.disk_hits;
    return std::move(found->code);
  }
  ++statistics.misses;
  const auto start = std::chrono::steady_clock::now();
  StoredKernel kernel{.code = compile(source), .text = source.text};
  kernel.compile_microseconds =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                std::chrono::steady_clock::now() - start)
                                .count());
  statistics.compile_microseconds += kernel.compile_microseconds;
  kernel.description = concat(source.architecture, ", ", source.compiler);
  for (const std::string& option : source.options) kernel.description += " " + option;
  ++(kernel_store().put(key, kernel) ? statistics.stored : statistics.unwritten);
  return std::move(kernel.code);
}

std::string jit_stats() {
  const KernelStatistics& now = kernel_statistics();
  const KernelStore& store = kernel_store();
  uint64_t bytes = 0;
  const std::vector<StoreEntry> entries = store.list();
  for (const StoreEntry& entry : entries) bytes += entry.bytes;
  const uint64_t hits = now.memory_hits + now.disk_hits, asked = hits + now.misses;
  const double rate = asked == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(asked);
  return concat("{\"memory_hits\": ", now.memory_hits.load(),
                ", \"disk_hits\": ", now.disk_hits.load(), ", \"misses\": ", now.misses.load(),
                ", \"hit_rate\": ", rate,
                ", \"compile_ms\": ", static_cast<double>(now.compile_microseconds.load()) / 1000,
                ", \"stored\": ", now.stored.load(), ", \"evicted\": ", now.evicted.load(),
                ", \"damaged\": ", now.damaged.load(), ", \"unwritten\": ", now.unwritten.load(),
                ", \"kernels_on_disk\": ", entries.size(), ", \"bytes_on_disk\": ", bytes, "}");
}

}  // namespace tensora::jit
