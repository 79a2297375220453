#pragma once

#include <csignal>
#include <functional>
#include <initializer_list>
#include <vector>

#include "tensora/llm/generation.h"

namespace tensora::cli {

/// While one lives, Ctrl-C is counted instead of ending the program; `requested` tells and forgets.
/// Three in a row without anybody asking end the program after all.
class Interrupt {
 public:
  /// Counts other signals, too, where they are given.
  explicit Interrupt(std::initializer_list<int> signals = {SIGINT});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool requested();
  /// The signal that came last.
  static int signal();

 private:
  std::vector<int> signals_;
  std::vector<struct sigaction> before_;
};

/// Gives the parts of an answer to `show` as they come; Ctrl-C cancels it.
void follow(llm::Generation& generation, const std::function<void(const llm::Piece&)>& show);

}  // namespace tensora::cli
