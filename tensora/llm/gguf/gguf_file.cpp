#include <charconv>
#include <cstdio>

#include "tensora/io/mapped_file.h"
#include "tensora/llm/gguf/gguf_reader.h"
#include "tensora/llm/model_file_contents.h"
#include "tensora/ops/creation/empty.h"

namespace tensora::llm {
namespace {

using io::MappedFile;

struct GgufContents : ModelFile::Contents {
  struct Place {
    std::shared_ptr<MappedFile> file;
    uint64_t begin;
  };
  std::vector<Place> data;  // of each tensor

  Tensor load(size_t place) const override {
    const TensorInfo& info = tensors[place];
    const auto& [file, begin] = data[place];
    const TensorOptions options{.dtype = info.dtype};
    if (info.bytes == 0) return empty(info.sizes, options);
    return from_blob(static_cast<const void*>(file->bytes().data() + begin), info.sizes, options,
                     std::shared_ptr<void>(file));
  }
};

void add_file(GgufContents& contents, const std::shared_ptr<MappedFile>& file,
              const GgufHeader& header) {
  for (const GgufTensor& tensor : header.tensors) {
    contents.add(tensor.info);
    contents.data.push_back({file, tensor.begin});
  }
}

constexpr int64_t kMostParts = 99999;

// "model-00001-of-00003.gguf": the name of another part of the same model.
std::string part_name(const std::string& first, int64_t part, int64_t count) {
  char ending[64];
  const auto format = [&](int64_t number) {
    std::snprintf(ending, sizeof ending, "-%05d-of-%05d.gguf", static_cast<int>(number),
                  static_cast<int>(count));
    return std::string(ending);
  };
  const std::string expected = format(1);
  check(first.ends_with(expected), "it is the first of ", count,
        " parts, so its name should end in '", expected, "'");
  return first.substr(0, first.size() - expected.size()) + format(part + 1);
}

void add_parts(GgufContents& contents, const std::string& path) {
  const Metadata& metadata = contents.metadata;
  const int64_t count = metadata.get_or("split.count", 1);
  if (count == 1) return;
  const int64_t number = metadata.get_or("split.no", 0);
  check(count >= 1 && count <= kMostParts && number >= 0 && number < count,
        "it says that it is part ", number, " of ", count, ", counted from 0");
  check(number == 0, "it is part ", number + 1, " of ", count, " of a model; open the first one");
  for (int64_t part = 1; part < count; ++part) {
    const std::string name = part_name(path, part, count);
    io::reading("its part", name, [&] {
      const std::shared_ptr<MappedFile> file = MappedFile::open(name);
      const GgufHeader header = parse_gguf(file->bytes());
      check(header.metadata.get_or("split.no", -1) == part &&
                header.metadata.get_or("split.count", -1) == count,
            "expected part ", part, " of ", count, " by its keys, counted from 0, got ",
            header.metadata.get_or("split.no", -1), " of ",
            header.metadata.get_or("split.count", -1));
      add_file(contents, file, header);
    });
  }
  const int64_t tensors = metadata.get_or("split.tensors.count", -1);
  check(tensors < 0 || tensors == static_cast<int64_t>(contents.tensors.size()), "its ", count,
        " parts have ", contents.tensors.size(), " tensors; expected ", tensors);
}

}  // namespace

std::shared_ptr<const ModelFile::Contents> open_gguf(const std::string& path) {
  return io::reading("gguf", path, [&] {
    const std::shared_ptr<MappedFile> file = MappedFile::open(path);
    GgufHeader header = parse_gguf(file->bytes());
    auto contents = std::make_shared<GgufContents>();
    contents->path = path;
    contents->metadata = std::move(header.metadata);
    contents->architecture = contents->metadata.get<std::string>("general.architecture");
    // Files of `llama` alone have their q and k permuted.
    contents->rope_in_halves = contents->architecture != "llama";
    add_file(*contents, file, header);
    add_parts(*contents, path);
    return contents;
  });
}

}  // namespace tensora::llm
