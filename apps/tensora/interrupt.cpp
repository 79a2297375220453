#include "interrupt.h"

#include <csignal>

namespace tensora::cli {
namespace {

volatile std::sig_atomic_t presses = 0;
struct sigaction before {};

void on_interrupt(int) {
  presses = presses + 1;
  if (presses < 3) return;
  sigaction(SIGINT, &before, nullptr);  // somebody is impatient
  std::raise(SIGINT);
}

}  // namespace

Interrupt::Interrupt() {
  presses = 0;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // a read from the terminal ends
  sigaction(SIGINT, &action, &before);
}

Interrupt::~Interrupt() { sigaction(SIGINT, &before, nullptr); }

bool Interrupt::requested() {
  if (presses == 0) return false;
  presses = 0;
  return true;
}

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
