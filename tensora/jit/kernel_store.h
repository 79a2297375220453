#pragma once

// Compiled kernels, kept between processes.

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tensora::jit {

/// What a compiler is given. Together with the embedded headers it decides the machine code.
struct KernelSource {
  std::string text;
  std::string architecture;  // "sm_90"
  std::string compiler;      // with its version
  std::vector<std::string> options = {};
};
/// The SHA-256 of all of it, of the embedded headers and of the format of entries.
std::string key_of(const KernelSource& source);

/// What happened to kernels in this process.
struct KernelStatistics {
  std::atomic<uint64_t> memory_hits = 0, disk_hits = 0, misses = 0;
  std::atomic<uint64_t> compile_microseconds = 0;
  std::atomic<uint64_t> stored = 0, evicted = 0, damaged = 0, unwritten = 0;
};
KernelStatistics& kernel_statistics();
/// The same and what the store holds, as JSON.
std::string jit_stats();

struct StoreEntry {
  std::string key;
  uint64_t bytes = 0;  // of the file
  std::filesystem::file_time_type used = {};
};
/// An entry's content.
struct StoredKernel {
  std::string code = {};
  std::string text = {};
  std::string description = {};  // architecture, compiler and options
  uint64_t compile_microseconds = 0;
};

// Note [The kernel store]
// An entry is a file named after its key: ab/abcd….tk. It is written to a temporary file beside it
// and renamed, so that readers find a whole entry or none, whoever else writes, and no lock is
// needed. A file that is not what it should be (truncated, changed, of another format or key) is
// counted, and replaced by what the compiler makes. Loading an entry means running its code: the
// folder must belong to the user, and nobody else may be able to write there. Where anything fails,
// the disk being full or read-only, kernels are compiled and not kept.

class KernelStore {
 public:
  struct Options {
    std::filesystem::path folder;        // empty: nothing is kept
    std::filesystem::path shared = {};   // also looked into, never written
    uint64_t limit = uint64_t{1} << 30;  // bytes; the least recently used go first
  };
  explicit KernelStore(Options options);

  std::optional<StoredKernel> find(const std::string& key);
  /// Returns whether it was written.
  bool put(const std::string& key, const StoredKernel& kernel);

  std::vector<StoreEntry> list() const;
  /// Removes the entries that are damaged; returns their keys.
  std::vector<std::string> verify();
  /// Removes all entries; returns how many.
  size_t clear();
  const Options& options() const { return options_; }
  /// Why the folder is not used; empty if it is.
  const std::string& refusal() const { return refusal_; }

 private:
  void evict(uint64_t needed);

  Options options_;
  std::string refusal_;
};

/// The process's store: TENSORA_KERNEL_CACHE names the folder, or "off"; otherwise it is
/// $XDG_CACHE_HOME/tensora/kernels/v1 (~/.cache without that variable).
KernelStore& kernel_store();

/// The machine code of a source: from the store, or compiled and put there.
std::string stored_code(const KernelSource& source,
                        std::string (*compile)(const KernelSource& source));

}  // namespace tensora::jit
