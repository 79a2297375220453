#include "tensora/backend/cpu/red_zones.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "tensora/base/check.h"
#include "tensora/base/fork.h"

namespace tensora::cpu {
namespace {

constexpr unsigned char kPattern = 0xa5;
constexpr int kUnwritten = 0xff;

class RedZones {
 public:
  RedZones() { hold_over_fork(mutex_); }

  void add(void* inside, size_t bytes) {
    const std::lock_guard lock(mutex_);
    blocks_.emplace(inside, bytes);
  }

  bool remove(void* inside) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(inside);
    if (found == blocks_.end()) return false;
    look_at(inside, found->second);
    blocks_.erase(found);
    return true;
  }

  void check_all() {
    std::unique_lock lock(mutex_);
    for (const auto& [inside, bytes] : blocks_) look_at(inside, bytes);
    const std::string found = std::exchange(damage_, {});
    lock.unlock();
    check(found.empty(), found);
  }

 private:
  // The first damage is kept until it can be thrown, and mended so that it is told once.
  void look_at(void* inside, size_t bytes) noexcept {
    auto* const tensor = static_cast<unsigned char*>(inside);
    const auto is_damaged = [](unsigned char byte) { return byte != kPattern; };
    unsigned char* const end = tensor + bytes;
    unsigned char* const before = std::find_if(tensor - kRedZone, tensor, is_damaged);
    unsigned char* const behind = std::find_if(end, end + kRedZone, is_damaged);
    if (before == tensor && behind == end + kRedZone) return;
    if (damage_.empty())
      damage_ = concat("cpu: a kernel wrote outside its memory: ",
                       before != tensor ? concat(tensor - before, " bytes before")
                                        : concat(behind - end, " bytes behind the end of"),
                       " a tensor of ", bytes, " bytes");
    std::memset(tensor - kRedZone, kPattern, kRedZone);
    std::memset(end, kPattern, kRedZone);
  }

  Mutex mutex_;
  std::unordered_map<void*, size_t> blocks_;  // each with its bytes
  std::string damage_;
};

RedZones& red_zones() {
  static constinit MadeOnce<RedZones> instance;
  return instance.get();
}

}  // namespace

constinit std::atomic<size_t> surrounded_blocks{0};
constinit std::atomic<bool> red_zones_wanted{false};

bool has_red_zones() noexcept { return red_zones_wanted.load(std::memory_order_relaxed); }
void set_red_zones(bool on) noexcept { red_zones_wanted.store(on, std::memory_order_relaxed); }
void check_red_zones() { red_zones().check_all(); }

void* surround(void* block, size_t bytes) {
  auto* const inside = static_cast<unsigned char*>(block) + kRedZone;
  std::memset(block, kPattern, kRedZone);
  std::memset(inside, kUnwritten, bytes);
  std::memset(inside + bytes, kPattern, kRedZone);
  red_zones().add(inside, bytes);
  surrounded_blocks.fetch_add(1, std::memory_order_relaxed);
  return inside;
}

bool unsurround(void* inside) noexcept {
  if (!red_zones().remove(inside)) return false;
  surrounded_blocks.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

}  // namespace tensora::cpu
