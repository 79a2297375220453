#include "tensora/distributed/tensor_pieces.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tensora/autograd/grad_mode.h"
#include "tensora/io/atomic_file.h"
#include "tensora/io/checksum.h"
#include "tensora/io/mapped_file.h"
#include "tensora/io/safetensors.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

using Json = nlohmann::json;
constexpr const char* kFormat = "tensora sharded checkpoint";
constexpr int kVersion = 2;  // 1 had no checksums

Json numbers(const auto& list) {
  Json array = Json::array();
  for (const int64_t number : list) array.push_back(number);
  return array;
}

template <class List>
List list_of(const Json& array) {
  List list;
  for (const Json& number : array) list.push_back(number.get<int64_t>());
  return list;
}

// Of a piece: its name, dtype and description, and its bytes.
uint32_t checksum(const std::string& name, const Json& description, const Tensor& elements) {
  const std::string text =
      concat(name, "\n", tensora::name(elements.dtype()), "\n", description.dump());
  const Tensor bytes = elements.contiguous();
  return io::crc32({static_cast<const uint8_t*>(bytes.data_ptr()), bytes.nbytes()},
                   io::crc32(io::bytes_of_text(text)));
}

uint32_t checksum_of_file(const std::string& path) {
  const auto file = io::MappedFile::open(path);
  return io::crc32(file->bytes());
}

// Of an index without its checksum.
uint32_t checksum(const Json& index) { return io::crc32(io::bytes_of_text(index.dump())); }

// What is wrong with a file is an Error that names it.
template <class Body>
auto reading(const std::string& path, Body body) {
  try {
    return body();
  } catch (const Json::exception& error) {
    fail(path, ": is not what a checkpoint has here: ", error.what());
  }
}

}  // namespace

void write_pieces(const std::string& folder, const std::string& file,
                  const std::vector<TensorPiece>& pieces) {
  StateDict tensors;
  Json described = Json::object();
  for (const TensorPiece& piece : pieces) {
    if (piece.range.size() == 0 && piece.sizes.numel() > 0) continue;
    const Tensor elements = piece.elements.cpu();
    tensors.insert(piece.name, elements);
    Json& description = described[piece.name];
    description = {{"shape", numbers(piece.sizes)},
                   {"strides", numbers(piece.strides)},
                   {"begin", piece.range.begin}};
    description["crc32"] = checksum(piece.name, description, elements);
  }
  io::save_safetensors(tensors, folder + "/" + file, {{"pieces", described.dump()}});
}

PieceIndex PieceIndex::of_files(const std::string& folder, const std::vector<std::string>& files,
                                bool verify) {
  PieceIndex index;
  index.files_ = files;
  for (const std::string& file : files) {
    const std::string path = concat(folder, "/", file);
    const StateDict& tensors = index.contents_[file] = io::load_safetensors(path);
    const io::Metadata metadata = io::safetensors_metadata(path);
    const auto text = metadata.find("pieces");
    check(text != metadata.end(), path, ": does not say which pieces it has");
    reading(path, [&] {
      const Json described = Json::parse(text->second);
      for (const auto& [name, tensor] : tensors) {
        Json piece = described.at(name);
        const auto expected = piece.at("crc32").get<uint32_t>();
        piece.erase("crc32");
        check(!verify || checksum(name, piece, tensor) == expected, path, ": '", name,
              "' is damaged: its checksum differs");
        Entry& entry = index.entries_[name];
        const Entry known = entry;
        entry.dtype = tensor.dtype();
        entry.sizes = list_of<Shape>(piece.at("shape"));
        entry.strides = list_of<Strides>(piece.at("strides"));
        check(known.parts.empty() || (known.dtype == entry.dtype && known.sizes == entry.sizes &&
                                      known.strides == entry.strides),
              path, ": '", name, "' has another dtype, shape or layout than in other files");
        const auto begin = piece.at("begin").get<int64_t>();
        entry.parts.push_back({file, {begin, begin + tensor.numel()}});
      }
    });
  }
  index.check_complete();
  return index;
}

// Numbers that all ranks have, such as counts of steps, are in several files.
void PieceIndex::check_complete() const {
  for (const auto& [name, entry] : entries_) {
    std::vector<ShardRange> ranges;
    for (const Part& part : entry.parts) ranges.push_back(part.range);
    std::sort(ranges.begin(), ranges.end(),
              [](const ShardRange& a, const ShardRange& b) { return a.begin < b.begin; });
    int64_t reached = 0;
    for (const ShardRange& range : ranges) {
      check(range.begin <= reached, "checkpoint: the elements ", reached, " to ", range.begin,
            " of '", name, "' are in no file");
      reached = std::max(reached, range.end);
    }
    check(reached == entry.sizes.numel(), "checkpoint: of the ", entry.sizes.numel(),
          " elements of '", name, "' the files have ", reached);
  }
}

void PieceIndex::write(const std::string& folder, int64_t step,
                       const std::vector<std::string>& others) const {
  Json checksums = Json::object();
  for (const std::string& other : others)
    checksums[other] = checksum_of_file(concat(folder, "/", other));
  Json tensors = Json::object();
  for (const auto& [name, entry] : entries_) {
    Json parts = Json::array();
    for (const Part& part : entry.parts)
      parts.push_back({{"file", part.file}, {"begin", part.range.begin}, {"end", part.range.end}});
    tensors[name] = {{"dtype", std::string(tensora::name(entry.dtype))},
                     {"shape", numbers(entry.sizes)},
                     {"strides", numbers(entry.strides)},
                     {"parts", parts}};
  }
  Json index = {{"format", kFormat}, {"version", kVersion}, {"step", step},
                {"files", files_},   {"others", checksums}, {"tensors", tensors}};
  index["crc32"] = checksum(index);
  io::AtomicFile file(folder + "/index.json");
  file.write(index.dump(1));
  file.commit();
}

PieceIndex PieceIndex::open(const std::string& folder) {
  const std::string path = folder + "/index.json";
  std::ifstream file(path, std::ios::binary);
  check(file.good(), path, ": cannot be opened");
  std::ostringstream text;
  text << file.rdbuf();
  const auto [files, step] = reading(path, [&] {
    Json index = Json::parse(text.str());
    check(index.at("format") == kFormat, path, ": is not the index of a sharded checkpoint");
    check(index.at("version") == kVersion, path, ": expected version ", kVersion, ", got ",
          index.at("version").dump());
    const auto expected = index.at("crc32").get<uint32_t>();
    index.erase("crc32");
    check(checksum(index) == expected, path, ": is damaged: its checksum differs");
    for (const auto& [other, sum] : index.at("others").items())
      check(checksum_of_file(concat(folder, "/", other)) == sum.get<uint32_t>(), folder, "/", other,
            ": is damaged: its checksum differs");
    return std::pair(index.at("files").get<std::vector<std::string>>(),
                     index.at("step").get<int64_t>());
  });
  PieceIndex result = of_files(folder, files, true);
  result.step_ = step;
  return result;
}

std::optional<Shape> PieceIndex::sizes_of(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  return found->second.sizes;
}

std::vector<std::string> PieceIndex::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries_) all.push_back(name);
  return all;
}

Tensor PieceIndex::load(const std::string& name) const {
  const no_grad silent;
  const auto found = entries_.find(name);
  check(found != entries_.end(), "checkpoint: there is no tensor '", name, "'");
  const Entry& entry = found->second;
  const Tensor elements = empty({entry.sizes.numel()}, {.dtype = entry.dtype});
  for (const Part& part : entry.parts)
    elements.narrow(0, part.range.begin, part.range.size()).copy_(contents_.at(part.file).at(name));
  return as_strided(elements, entry.sizes, entry.strides, 0);
}

}  // namespace tensora::distributed
