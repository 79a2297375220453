#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>

#include "tensora/llm/generation.h"

namespace tensora::llm {

/// What the engine's thread and the holder of a Generation share.
struct Generation::State {
  std::atomic<bool> cancelled = false;  // read before every step

  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  Piece pending;  // not yet fetched
  bool has_pending = false, done = false, is_awaited = false;
  Completion completion;
  std::exception_ptr error;

  bool has_news() const { return has_pending || done; }
  void add(std::string_view text, Sampled token);
  void finish(std::string_view text, Completion result);
  void fail(std::exception_ptr what);
};

}  // namespace tensora::llm
