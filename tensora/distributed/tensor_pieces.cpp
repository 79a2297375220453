#include "tensora/distributed/tensor_pieces.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tensora/autograd/grad_mode.h"
#include "tensora/io/atomic_file.h"
#include "tensora/io/safetensors.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

using Json = nlohmann::json;
constexpr const char* kFormat = "tensora sharded checkpoint";

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
    if (piece.range.size() == 0) continue;
    tensors.insert(piece.name, piece.elements.cpu());
    described[piece.name] = {{"shape", numbers(piece.sizes)},
                             {"strides", numbers(piece.strides)},
                             {"begin", piece.range.begin}};
  }
  io::save_safetensors(tensors, folder + "/" + file, {{"pieces", described.dump()}});
}

PieceIndex PieceIndex::of_files(const std::string& folder, const std::vector<std::string>& files) {
  PieceIndex index;
  index.files_ = files;
  for (const std::string& file : files) {
    const std::string path = folder + "/" + file;
    const StateDict tensors = io::load_safetensors(path);
    const io::Metadata metadata = io::safetensors_metadata(path);
    const auto text = metadata.find("pieces");
    check(text != metadata.end(), path, ": does not say which pieces it has");
    reading(path, [&] {
      const Json described = Json::parse(text->second);
      for (const auto& [name, tensor] : tensors) {
        const Json& piece = described.at(name);
        Entry& entry = index.entries_[name];
        entry.dtype = tensor.dtype();
        entry.sizes = list_of<Shape>(piece.at("shape"));
        entry.strides = list_of<Strides>(piece.at("strides"));
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

void PieceIndex::write(const std::string& folder, int64_t step) const {
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
  const Json index = {
      {"format", kFormat}, {"version", 1}, {"step", step}, {"files", files_}, {"tensors", tensors}};
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
    const Json index = Json::parse(text.str());
    check(index.at("format") == kFormat, path, ": is not the index of a sharded checkpoint");
    check(index.at("version") == 1, path, ": expected version 1, got ", index.at("version").dump());
    return std::pair(index.at("files").get<std::vector<std::string>>(),
                     index.at("step").get<int64_t>());
  });
  PieceIndex result = of_files(folder, files);
  result.step_ = step;
  for (const std::string& name : files)
    result.contents_[name] = io::load_safetensors(folder + "/" + name);
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
