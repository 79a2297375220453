#pragma once

#include <functional>
#include <map>

#include "tensora/llm/model_file.h"

namespace tensora::llm {

/// What a reader finds out about a model on disk.
struct ModelFile::Contents {
  std::string path, folder;
  Metadata metadata;
  std::string architecture;
  bool rope_in_halves = true;
  std::vector<TensorInfo> tensors;
  std::map<std::string, size_t, std::less<>> places;  // of names in `tensors`
  uint64_t bytes = 0;
  std::vector<std::string> ignored_fields;  // of config.json

  virtual ~Contents() = default;
  virtual Tensor load(size_t place) const = 0;

  /// Throws for a name that is there already.
  void add(TensorInfo info) {
    check(places.emplace(info.name, tensors.size()).second, "the tensor '", info.name,
          "' is there twice");
    bytes += info.bytes;
    tensors.push_back(std::move(info));
  }
};

}  // namespace tensora::llm
