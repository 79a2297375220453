#include "tensora/distributed/recorder.h"

#include <algorithm>
#include <cmath>

namespace tensora::distributed {
namespace {

double seconds_since(Recorder::Clock::time_point then) {
  const double seconds = std::chrono::duration<double>(Recorder::Clock::now() - then).count();
  return std::round(seconds * 10) / 10;
}

std::string line_of(const Recorder::Record& record) {
  std::string text = concat("call ", record.number, ", ", to_string(record.call), " in group ",
                            record.group, ", ");
  if (record.is_done)
    append(text, concat("done ", seconds_since(record.done), " s ago"));
  else if (record.has_started)
    append(text, concat("waiting for ", seconds_since(record.started), " s"));
  else
    append(text, concat("queued for ", seconds_since(record.queued), " s"));
  return text;
}

}  // namespace

uint64_t Recorder::queue(const std::string& group, const Collective& call) {
  const std::lock_guard lock(mutex_);
  if (ring_.empty()) ring_.resize(kCalls);
  Record& record = ring_[calls_++ % kCalls];
  record.number = calls_;
  record.group = group;
  record.call = summary_of(call);
  record.queued = Clock::now();
  record.has_started = record.is_done = false;
  return calls_;
}

Recorder::Record* Recorder::find(uint64_t number) {
  Record& record = ring_[(number - 1) % kCalls];
  return record.number == number ? &record : nullptr;  // else newer calls have taken its place
}

void Recorder::start(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (Record* const record = find(number)) {
    record->started = Clock::now();
    record->has_started = true;
  }
}

void Recorder::finish(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (Record* const record = find(number)) {
    record->done = Clock::now();
    record->is_done = true;
  }
}

std::vector<Recorder::Record> Recorder::records() const {
  const std::lock_guard lock(mutex_);
  std::vector<Record> result;
  const uint64_t kept = std::min<uint64_t>(calls_, kCalls);
  for (uint64_t number = calls_ - kept; number < calls_; ++number)
    result.push_back(ring_[number % kCalls]);
  return result;
}

std::string Recorder::last() const {
  const std::lock_guard lock(mutex_);
  return calls_ == 0 ? std::string() : line_of(ring_[(calls_ - 1) % kCalls]);
}

std::string Recorder::text(size_t most) const {
  const std::vector<Record> all = records();
  std::string text;
  for (size_t i = all.size() - std::min(all.size(), most); i < all.size(); ++i)
    append(text, concat("  ", line_of(all[i]), "\n"));
  return text;
}

}  // namespace tensora::distributed
