#pragma once

// Internal header: tensors that are stored in pieces, in several safetensors files.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensora/distributed/shard_layout.h"
#include "tensora/io/state.h"

namespace tensora::distributed {

/// Elements of a tensor, in the order of its memory.
struct TensorPiece {
  std::string name;
  Shape sizes;      // of the whole tensor
  Strides strides;  // in whose order the elements are
  ShardRange range;
  Tensor elements;  // a vector of the range's size
};

/// Writes pieces into FOLDER/FILE, durably.
void write_pieces(const std::string& folder, const std::string& file,
                  const std::vector<TensorPiece>& pieces);

/// The tensors of several files that are described by an index.
class PieceIndex {
 public:
  /// Reads the descriptions of the files. Throws if an element of a tensor is in none of them, or,
  /// with `verify`, if a checksum differs, for which all of the files is read.
  static PieceIndex of_files(const std::string& folder, const std::vector<std::string>& files,
                             bool verify = false);
  /// Reads FOLDER/index.json and opens its files. Throws if anything is missing or damaged.
  static PieceIndex open(const std::string& folder);
  /// Writes FOLDER/index.json, atomically, with the checksums of further files in the folder.
  void write(const std::string& folder, int64_t step,
             const std::vector<std::string>& others = {}) const;

  /// None if there is no such tensor.
  std::optional<Shape> sizes_of(const std::string& name) const;
  std::vector<std::string> names() const;
  /// The whole tensor, on the CPU.
  Tensor load(const std::string& name) const;
  int64_t step() const { return step_; }

 private:
  struct Part {
    std::string file;
    ShardRange range;
  };
  struct Entry {
    DType dtype = kFloat32;
    Shape sizes;
    Strides strides;
    std::vector<Part> parts;
  };

  void check_complete() const;

  std::map<std::string, Entry> entries_;
  std::vector<std::string> files_;
  std::map<std::string, StateDict> contents_;  // by file
  int64_t step_ = 0;
};

}  // namespace tensora::distributed
