#include "tensora/distributed/control.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "tensora/distributed/report.h"

namespace tensora::distributed {

std::string encode_error(const std::exception_ptr& error, int rank) {
  try {
    std::rethrow_exception(error);
  } catch (const RankMismatchError& known) {
    return concat("m", known.what());
  } catch (const GroupTimeoutError& known) {
    return concat("t", known.what());
  } catch (const RankFailedError& known) {
    return concat("f", known.what());
  } catch (const GroupError& known) {
    return concat("g", known.what());
  } catch (const std::exception& known) {
    return concat("frank ", rank, " failed: ", known.what());
  } catch (...) {
    return concat("frank ", rank, " failed with an exception of unknown type");
  }
}

std::exception_ptr decode_error(int rank, const std::string& text) {
  const std::string message = text.substr(text.empty() ? 0 : 1);
  switch (text.empty() ? 'f' : text[0]) {
    case 'm':
      return std::make_exception_ptr(RankMismatchError(message));
    case 't':
      return std::make_exception_ptr(GroupTimeoutError(message));
    case 'g':
      return std::make_exception_ptr(GroupError(message));
    default:
      return std::make_exception_ptr(RankFailedError(rank, message));
  }
}

Control::Control(const MeetingPoint& place, int rank, int ranks, std::shared_ptr<Failure> failure,
                 std::shared_ptr<Recorder> recorder, double seconds, Socket listener)
    : rank_(rank),
      ranks_(ranks),
      failure_(std::move(failure)),
      recorder_(std::move(recorder)),
      left_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(ranks))) {
  int port = place.port;
  if (rank == 0) {
    if (!listener.valid()) listener = Socket::listen(place.address, place.port);
    port = listener.port();
    server_ = std::make_unique<ControlServer>(std::move(listener), ranks, place.token);
  }
  socket_ = Socket::connect(place.address, port, seconds);
  send({MessageKind::hello, rank,
        concat(place.token, "\n", host_name(), " (process ", static_cast<long>(::getpid()), ")")});
  const Message answer = await_answer(concat("rank 0 at ", place.address, " port ", port), seconds);
  check(answer.kind == MessageKind::welcome && answer.text.empty(), "rank 0 at ", place.address,
        " port ", port, " refused rank ", rank, ": ", answer.text);
  thread_ = std::thread([this] { listen(); });
}

// Another program that has taken the port may accept connections and say nothing, or anything.
Message Control::await_answer(const std::string& server, double seconds) {
  const auto until = Watch::Clock::now() + std::chrono::duration<double>(seconds);
  Message answer;
  while (!decode(received_, answer)) {
    check(Watch::Clock::now() < until, server, " did not answer within ", seconds,
          " s; another program may use that port: TENSORA_MASTER=ADDRESS:PORT chooses another one");
    if (socket_.readable(50))
      check(socket_.receive_some(received_), server, " closed the connection before it answered");
  }
  return answer;
}

void Control::leave() {
  if (!said_goodbye_.exchange(true)) send({MessageKind::bye, rank_, {}});
}

Control::~Control() {
  leave();
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Control::send(const Message& message) {
  const std::lock_guard lock(sending_);
  socket_.send_all(encode(message));  // the listening thread notices where it is gone
}

void Control::listen() {
  auto next_beat = Watch::Clock::now();
  Message message;
  while (!stopping_) {
    while (decode(received_, message)) handle(message);
    if (Watch::Clock::now() >= next_beat) {
      send({MessageKind::heartbeat, rank_, recorder_->last()});
      next_beat = Watch::Clock::now() + std::chrono::seconds(1);
      look_for_launcher();
    }
    if (!socket_.readable(50)) continue;
    if (!socket_.receive_some(received_)) {
      if (!stopping_ && !said_goodbye_ && !left_[0])
        failure_->set_from_outside(std::make_exception_ptr(
            RankFailedError(0, "rank 0 ended without notice: its control channel was closed")));
      closed_ = true;
      changed_.notify_all();
      return;
    }
  }
}

void Control::look_for_launcher() {
  const int launcher = launcher_;
  if (launcher == 0 || ::kill(launcher, 0) == 0 || errno != ESRCH) return;
  launcher_ = 0;
  failure_->set_from_outside(std::make_exception_ptr(
      GroupError(concat("the launcher, process ", launcher, ", ended without its ranks"))));
}

void Control::handle(const Message& message) {
  if (message.kind == MessageKind::failed) {
    failure_->set_from_outside(decode_error(message.rank, message.text));
  } else if (message.kind == MessageKind::bye) {
    left_[static_cast<size_t>(message.rank)] = true;
  } else if (message.kind == MessageKind::value) {
    const size_t end = message.text.find('\0');
    const std::lock_guard lock(mutex_);
    values_[message.text.substr(0, end)] = message.text.substr(end + 1);
  }
  changed_.notify_all();
}

void Control::put(const std::string& key, const std::string& value) {
  send({MessageKind::put, rank_, key + '\0' + value});
}

std::string Control::get(const std::string& key, double seconds) {
  send({MessageKind::get, rank_, key});
  const auto until = Watch::Clock::now() + std::chrono::duration<double>(seconds);
  std::unique_lock lock(mutex_);
  while (!values_.contains(key)) {
    failure_->rethrow_if_happened();
    check(Watch::Clock::now() < until, "no rank gave \"", key, "\" within ", seconds, " s");
    changed_.wait_for(lock, std::chrono::milliseconds(50));
  }
  std::string value = std::move(values_[key]);
  values_.erase(key);
  return value;
}

void Control::meet(const std::string& name, size_t members, size_t place, double seconds) {
  put(concat(name, "/", place), "here");
  for (size_t other = 0; other < members; ++other)
    if (other != place) get(concat(name, "/", other), seconds);
}

bool Control::has_left(int rank) const { return left_[static_cast<size_t>(rank)]; }

bool Control::all_left() const {
  for (int other = 0; other < ranks_ && !closed_; ++other)
    if (other != rank_ && !has_left(other)) return false;
  return true;
}

void Control::tell_failure(const std::exception_ptr& error) {
  send({MessageKind::failed, rank_, encode_error(error, rank_)});
}

void Control::tell_slow(const std::string& text, const std::vector<int>& missing) {
  std::string list;
  for (int rank : missing) append(list, concat(rank, " "));
  send({MessageKind::slow, rank_, list + '\0' + text});
}

}  // namespace tensora::distributed
