#include <poll.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tensora/distributed/control.h"
#include "tensora/distributed/report.h"

namespace tensora::distributed {
namespace {

constexpr auto kSilence = std::chrono::seconds(20);  // twenty missed heartbeats

double seconds_since(std::chrono::steady_clock::time_point then) {
  const auto span = std::chrono::steady_clock::now() - then;
  return std::round(std::chrono::duration<double>(span).count() * 10) / 10;
}

}  // namespace

ControlServer::ControlServer(Socket listener, int ranks, std::string token)
    : listener_(std::move(listener)),
      ranks_(ranks),
      token_(std::move(token)),
      infos_(static_cast<size_t>(ranks)) {
  thread_ = std::thread([this] { serve(); });
}

ControlServer::~ControlServer() {
  // Ranks that are still at work lose nothing but the watch over them if this one ends much
  // earlier.
  const auto until = Clock::now() + std::chrono::seconds(5);
  while (connected_ > 0 && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stopping_ = true;
  thread_.join();
}

void ControlServer::serve() {
  while (!stopping_) {
    std::vector<pollfd> watched{{listener_.handle(), POLLIN, 0}};
    for (const auto& peer : peers_) watched.push_back({peer->socket.handle(), POLLIN, 0});
    if (::poll(watched.data(), watched.size(), 50) > 0) {
      for (size_t i = 1; i < watched.size(); ++i)
        if (watched[i].revents) read(*peers_[i - 1]);
      if (watched[0].revents)
        if (Socket socket = listener_.accept(); socket.valid())
          peers_.push_back(std::make_unique<Peer>(Peer{std::move(socket), {}, -1, false}));
    }
    std::erase_if(peers_, [](const auto& peer) { return !peer->socket.valid(); });
    connected_ = std::ranges::count_if(
        peers_, [](const auto& peer) { return peer->rank >= 0 && !peer->left; });
    look_for_silence();
  }
}

void ControlServer::read(Peer& peer) {
  if (!peer.socket.receive_some(peer.received)) return lose(peer);
  try {
    Message message;
    while (peer.socket.valid() && decode(peer.received, message)) handle(peer, message);
  } catch (const Error&) {  // not one of ours, whatever it sent
    lose(peer);
  }
}

void ControlServer::handle(Peer& peer, const Message& message) {
  if (peer.rank < 0) return greet(peer, message);
  RankInfo& info = infos_[static_cast<size_t>(peer.rank)];
  info.heard = Clock::now();
  info.warned = false;
  const size_t end = std::min(message.text.find('\0'), message.text.size());
  const std::string key = message.text.substr(0, end);
  switch (message.kind) {
    case MessageKind::put: {
      values_[key] = message.text.substr(std::min(end + 1, message.text.size()));
      const auto [first, last] = waiting_.equal_range(key);
      for (auto at = first; at != last; ++at)
        for (const auto& other : peers_)
          if (other->rank == at->second)
            other->socket.send_all(
                encode({MessageKind::value, peer.rank, key + '\0' + values_[key]}));
      waiting_.erase(first, last);
      return;
    }
    case MessageKind::get:
      if (const auto found = values_.find(key); found != values_.end())
        peer.socket.send_all(encode({MessageKind::value, peer.rank, key + '\0' + found->second}));
      else
        waiting_.emplace(key, peer.rank);
      return;
    case MessageKind::heartbeat:
      info.last_call = message.text;
      return;
    case MessageKind::slow:
      return warn_slow(message);
    case MessageKind::failed:
      return tell_failure({message.kind, peer.rank, message.text});
    case MessageKind::bye:
      peer.left = true;
      return tell_all({MessageKind::bye, peer.rank, {}}, peer.rank);
    case MessageKind::hello:
    case MessageKind::welcome:
    case MessageKind::value:
      return;
  }
}

void ControlServer::greet(Peer& peer, const Message& message) {
  const size_t end = std::min(message.text.find('\n'), message.text.size());
  const bool hello = message.kind == MessageKind::hello;
  const auto refuse = [&](const std::string& why) {
    peer.socket.send_all(encode({MessageKind::welcome, 0, why}));
    peer.socket.close();
  };
  if (!hello || message.text.substr(0, end) != token_)
    return refuse("it belongs to another job (its token differs)");
  if (message.rank < 0 || message.rank >= ranks_)
    return refuse(concat("the job has ", ranks_, " ranks"));
  RankInfo& info = infos_[static_cast<size_t>(message.rank)];
  if (info.known)
    return refuse(concat("there is a rank ", message.rank, " already, on ", info.place));
  peer.rank = message.rank;
  info.known = true;
  info.place = message.text.substr(std::min(end + 1, message.text.size()));
  info.heard = Clock::now();
  peer.socket.send_all(encode({MessageKind::welcome, 0, {}}));
  if (failure_) peer.socket.send_all(encode(*failure_));  // before it came
}

void ControlServer::lose(Peer& peer) {
  if (peer.rank >= 0 && !peer.left) {
    const RankInfo& info = infos_[static_cast<size_t>(peer.rank)];
    std::string text = concat("frank ", peer.rank, " on ", info.place, " ended without notice");
    if (!info.last_call.empty()) append(text, concat("; its last report: ", info.last_call));
    tell_failure({MessageKind::failed, peer.rank, text});
  }
  peer.socket.close();
}

void ControlServer::tell_failure(const Message& message) {
  if (failure_) return;
  failure_ = message;
  tell_all(message, message.rank);
}

void ControlServer::tell_all(const Message& message, int except) {
  const std::string bytes = encode(message);
  for (const auto& peer : peers_)
    if (peer->rank >= 0 && peer->rank != except) peer->socket.send_all(bytes);
}

void ControlServer::warn_slow(const Message& message) {
  if (Clock::now() - last_warning_ < std::chrono::seconds(5)) return;  // all that wait say the same
  last_warning_ = Clock::now();
  const size_t end = std::min(message.text.find('\0'), message.text.size());
  report(message.text.substr(std::min(end + 1, message.text.size())));
  std::istringstream missing(message.text.substr(0, end));
  for (int rank; missing >> rank;) {
    if (rank < 0 || rank >= ranks_) continue;
    const RankInfo& info = infos_[static_cast<size_t>(rank)];
    report(concat("  rank ", rank, " on ", info.place, " was heard ", seconds_since(info.heard),
                  " s ago; ", info.last_call.empty() ? "it has made no call" : info.last_call));
  }
}

void ControlServer::look_for_silence() {
  for (const auto& peer : peers_) {
    if (peer->rank < 0 || peer->left) continue;
    RankInfo& info = infos_[static_cast<size_t>(peer->rank)];
    if (info.warned || Clock::now() - info.heard < kSilence) continue;
    info.warned = true;
    report(concat("rank ", peer->rank, " on ", info.place, " has been silent for ",
                  seconds_since(info.heard), " s: its process is stopped, or its host is away"));
  }
}

}  // namespace tensora::distributed
