#include "tensora/train/stop_on_signal.h"

#include <csignal>

namespace tensora::train {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

// The handlers from before; async-signal-safe code restores them.
struct sigaction before_int {
}, before_term{};

void on_signal(int) {
  stop_requested = 1;
  // Whoever asks twice does not want to wait.
  sigaction(SIGINT, &before_int, nullptr);
  sigaction(SIGTERM, &before_term, nullptr);
}

}  // namespace

StopOnSignal::StopOnSignal() {
  stop_requested = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_int);
  sigaction(SIGTERM, &action, &before_term);
}

StopOnSignal::~StopOnSignal() {
  sigaction(SIGINT, &before_int, nullptr);
  sigaction(SIGTERM, &before_term, nullptr);
}

bool StopOnSignal::requested() { return stop_requested != 0; }

}  // namespace tensora::train
