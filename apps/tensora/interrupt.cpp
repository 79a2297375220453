#include "interrupt.h"

#include <csignal>

namespace tensora::cli {
namespace {

volatile std::sig_atomic_t presses = 0, last_signal = 0;

void on_signal(int signal) {
  presses = presses + 1;
  last_signal = signal;
  if (presses < 3) return;
  std::signal(signal, SIG_DFL);  // somebody is impatient
  std::raise(signal);
}

}  // namespace

Interrupt::Interrupt(std::initializer_list<int> signals) : signals_(signals) {
  presses = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // a read from the terminal ends
  for (const int signal : signals_) sigaction(signal, &action, &before_.emplace_back());
}

Interrupt::~Interrupt() {
  for (size_t i = 0; i < signals_.size(); ++i) sigaction(signals_[i], &before_[i], nullptr);
}

bool Interrupt::requested() {
  if (presses == 0) return false;
  presses = 0;
  return true;
}

int Interrupt::signal() { return last_signal; }

void follow(llm::Generation& generation, const std::function<void(const llm::Piece&)>& show) {
  while (true) {
    while (!generation.is_ready(0.05))
      if (Interrupt::requested()) generation.cancel();
    const auto piece = generation.next();
    if (!piece) return;
    show(*piece);
    if (Interrupt::requested()) generation.cancel();
  }
}

}  // namespace tensora::cli
