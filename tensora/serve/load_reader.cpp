#include "tensora/serve/load_reader.h"

#include <algorithm>
#include <charconv>

namespace tensora::serve {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& letter : out)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
  return out;
}

}  // namespace

bool ResponseReader::push(std::string_view bytes, const Body& body) {
  while (!bytes.empty() && step_ != Step::whole) {
    switch (step_) {
      case Step::head: {
        const size_t before = line_.size() < 3 ? 0 : line_.size() - 3;
        line_ += bytes;
        const size_t end = line_.find("\r\n\r\n", before);
        if (end == line_.npos) return line_.size() < 65536;
        bytes.remove_prefix(bytes.size() - (line_.size() - end - 4));
        line_.resize(end + 2);
        if (!take_head()) return false;
        break;
      }
      case Step::length:
      case Step::chunk: {
        const std::string_view part = bytes.substr(0, static_cast<size_t>(left_));
        body(part);
        bytes.remove_prefix(part.size());
        left_ -= static_cast<int64_t>(part.size());
        if (left_ == 0) step_ = step_ == Step::length ? Step::whole : Step::chunk_end;
        break;
      }
      case Step::size_line:
        if (!take_size_line(bytes)) return false;
        break;
      case Step::chunk_end:
        if (take_line(bytes)) {
          if (!line_.empty()) return false;
          step_ = Step::size_line;
        }
        break;
      case Step::trailer:
        if (take_line(bytes)) {
          if (line_.empty()) step_ = Step::whole;
          line_.clear();
        }
        break;
      case Step::rest:
        body(bytes);
        return true;
      case Step::whole:
        break;
    }
  }
  return true;
}

bool ResponseReader::close() {
  keeps_alive_ = false;
  if (step_ == Step::rest) step_ = Step::whole;
  return step_ == Step::whole;
}

// Adds to `line_` up to the end of the line; true: the line is whole, without CR LF.
bool ResponseReader::take_line(std::string_view& bytes) {
  const size_t end = bytes.find('\n');
  if (end == bytes.npos) {
    line_ += bytes;
    bytes = {};
    return false;
  }
  line_ += bytes.substr(0, end);
  bytes.remove_prefix(end + 1);
  if (line_.ends_with('\r')) line_.pop_back();
  return true;
}

bool ResponseReader::take_size_line(std::string_view& bytes) {
  if (!take_line(bytes)) return line_.size() < 1024;
  const auto [end, error] = std::from_chars(line_.data(), line_.data() + line_.size(), left_, 16);
  if (error != std::errc() || left_ < 0) return false;
  line_.clear();
  step_ = left_ == 0 ? Step::trailer : Step::chunk;
  return true;
}

bool ResponseReader::take_head() {
  if (!line_.starts_with("HTTP/1.") || line_.size() < 12) return false;
  std::from_chars(line_.data() + 9, line_.data() + 12, status_);
  const std::string head = lower(line_);
  line_.clear();
  const auto value = [&](const std::string& name) -> std::string_view {
    const size_t at = head.find("\r\n" + name + ":");
    if (at == head.npos) return {};
    const size_t begin = head.find_first_not_of(' ', at + name.size() + 3);
    return std::string_view(head).substr(begin, head.find("\r\n", begin) - begin);
  };
  keeps_alive_ = value("connection") != "close" && !head.starts_with("http/1.0");
  if (status_ / 100 == 1) return true;  // another head follows
  const std::string_view length = value("content-length");
  if (value("transfer-encoding") == "chunked") {
    step_ = Step::size_line;
  } else if (!length.empty()) {
    left_ = 0;
    std::from_chars(length.data(), length.data() + length.size(), left_);
    step_ = left_ == 0 ? Step::whole : Step::length;
  } else {
    step_ = status_ == 204 || status_ == 304 ? Step::whole : Step::rest;
    keeps_alive_ = keeps_alive_ && step_ == Step::whole;
  }
  return left_ >= 0;
}

void EventReader::push(std::string_view bytes, const Give& give) {
  std::string held;
  if (!rest_.empty()) {
    held = std::move(rest_);
    held += bytes;
    bytes = held;
    rest_.clear();
  }
  size_t begin = 0;
  for (size_t end; (end = bytes.find('\n', begin)) != bytes.npos; begin = end + 1) {
    std::string_view line = bytes.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(line.size() > 5 && line[5] == ' ' ? 6 : 5);
    give(line);
  }
  rest_ = std::string(bytes.substr(begin));
}

bool has_text(std::string_view event) {
  for (const std::string_view name : {R"("text":)", R"("content":)", R"("reasoning_content":)"}) {
    size_t at = event.find(name);
    if (at == event.npos) continue;
    at += name.size();
    while (at < event.size() && event[at] == ' ') ++at;
    if (at + 1 < event.size() && event[at] == '"' && event[at + 1] != '"') return true;
  }
  return false;
}

}  // namespace tensora::serve
