#include "tensora/train/stop_on_signal.h"

#include <csignal>

namespace tensora::train {
namespace {

volatile std::sig_atomic_t stop_signal = 0;

// The handlers from before; async-signal-safe code restores them.
struct sigaction before_int {
}, before_term{}, before_hangup{};

void on_signal(int signal) {
  if (stop_signal == 0) stop_signal = signal;
  // Whoever asks twice does not want to wait.
  sigaction(SIGINT, &before_int, nullptr);
  sigaction(SIGTERM, &before_term, nullptr);
}

}  // namespace

StopOnSignal::StopOnSignal() {
  stop_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_int);
  sigaction(SIGTERM, &action, &before_term);
  sigaction(SIGHUP, nullptr, &before_hangup);
  if (before_hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

StopOnSignal::~StopOnSignal() {
  sigaction(SIGINT, &before_int, nullptr);
  sigaction(SIGTERM, &before_term, nullptr);
  // The model is written after training: a second SIGHUP must not end that.
  if (stop_signal != SIGHUP) sigaction(SIGHUP, &before_hangup, nullptr);
}

int StopOnSignal::signal() { return stop_signal; }

}  // namespace tensora::train
