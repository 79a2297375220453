#include "tensora/train/tensor_board_logger.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "tensora/base/check.h"
#include "tensora/core/tensor.h"
#include "tensora/core/text.h"
#include "tensora/ops.h"
#include "tensora/train/append_file.h"
#include "tensora/train/protobuf.h"

// An event file is a sequence of records: length (8 bytes), its checksum (4), an Event message, its
// checksum (4). The field numbers are those of event.proto, summary.proto and tensor.proto.

namespace tensora::train {
namespace {

constexpr size_t kHead = 12, kTail = 4;
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum ValueField { kTag = 1, kSimpleValue = 2, kHistogram = 5, kTensor = 8, kMetadata = 9 };

constexpr auto crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    table[i] = crc;
  }
  return table;
}();

std::string little_endian(uint64_t value, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

uint64_t read_little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

std::string record(std::string_view event) {
  const std::string length = little_endian(event.size(), 8);
  return concat(length, little_endian(masked_crc32c(length), 4), event,
                little_endian(masked_crc32c(event), 4));
}

// The event at the front of a file; empty if it is torn or damaged.
std::string_view first_event(std::string_view bytes) {
  if (bytes.size() < kHead + kTail) return {};
  const std::string_view length = bytes.substr(0, 8);
  const uint64_t size = read_little_endian(length);
  if (read_little_endian(bytes.substr(8, 4)) != masked_crc32c(length)) return {};
  if (size > bytes.size() - kHead - kTail) return {};
  const std::string_view event = bytes.substr(kHead, size);
  if (read_little_endian(bytes.substr(kHead + size, 4)) != masked_crc32c(event)) return {};
  return event;
}

std::string file_in(const std::string& folder) {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kEventFilePrefix)) found = std::max(found, name);
  }
  if (!found.empty()) return folder + "/" + found;
  char host[256] = "localhost";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return concat(folder, "/", kEventFilePrefix, static_cast<int64_t>(wall_seconds()), ".", host);
}

Message histogram_of(const std::vector<double>& values) {
  constexpr size_t kBuckets = 64;
  double least = INFINITY, most = -INFINITY, sum = 0, squares = 0;
  for (const double value : values) {
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
    squares += value * value;
  }
  // All equal, or none: one bucket around the value.
  const double width = most > least ? (most - least) / double(kBuckets) : 1;
  std::vector<double> limits(kBuckets), counts(kBuckets);
  const double start = most > least ? least : values.empty() ? 0 : least - 0.5;
  for (size_t i = 0; i < kBuckets; ++i) limits[i] = start + width * double(i + 1);
  for (const double value : values)
    ++counts[std::min(kBuckets - 1, static_cast<size_t>((value - start) / width))];
  return Message()
      .real(1, values.empty() ? 0 : least)
      .real(2, values.empty() ? 0 : most)
      .real(3, double(values.size()))
      .real(4, sum)
      .real(5, squares)
      .reals(6, limits)
      .reals(7, counts);
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = crc >> 8 ^ crc_table[(crc ^ static_cast<uint8_t>(byte)) & 255];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

TensorBoardLogger::TensorBoardLogger(const std::string& folder)
    : file_(std::make_unique<AppendFile>(file_in(folder))) {
  start_file();
}

// Every event file begins with its version.
void TensorBoardLogger::start_file() {
  if (file_->size() == 0)
    file_->append(record(
        Message().real(kWallTime, wall_seconds()).bytes(kFileVersion, "brain.Event:2").str()));
}

TensorBoardLogger::~TensorBoardLogger() = default;

void TensorBoardLogger::add(int64_t step, std::string_view summary) {
  file_->append(record(Message()
                           .real(kWallTime, wall_seconds())
                           .integer(kStep, step)
                           .bytes(kSummary, summary)
                           .str()));
}

void TensorBoardLogger::scalars(int64_t step, const Scalars& values) {
  Message summary;
  for (const auto& [name, value] : values)
    summary.message(1, Message().bytes(kTag, name).single(kSimpleValue, static_cast<float>(value)));
  add(step, summary.str());
}

void TensorBoardLogger::text(int64_t step, std::string_view tag, std::string_view text) {
  constexpr int kDtString = 7;
  const Message shape = Message().message(2, Message().integer(1, 1));
  const Message tensor = Message().integer(1, kDtString).message(2, shape).bytes(8, text);
  const Message metadata = Message().message(1, Message().bytes(1, "text"));
  const Message value =
      Message().bytes(kTag, tag).message(kMetadata, metadata).message(kTensor, tensor);
  add(step, Message().message(1, value).str());
}

void TensorBoardLogger::histogram(int64_t step, std::string_view tag, const Tensor& values) {
  std::vector<double> elements = to_vector<double>(values.detach());
  std::erase_if(elements, [](double value) { return !std::isfinite(value); });
  const Message value = Message().bytes(kTag, tag).message(kHistogram, histogram_of(elements));
  add(step, Message().message(1, value).str());
}

void TensorBoardLogger::rewind(int64_t step) {
  const std::string text = file_->read();
  std::string_view rest = text;
  while (true) {
    const std::string_view event = first_event(rest);
    if (event.empty()) break;
    const int64_t at = integer_field(event, kStep, 0);
    if (at < 0 || at > step) break;
    rest.remove_prefix(kHead + event.size() + kTail);
  }
  file_->truncate(file_->size() - static_cast<int64_t>(rest.size()));
  start_file();
}

}  // namespace tensora::train
