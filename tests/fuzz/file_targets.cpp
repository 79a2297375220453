#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "targets.h"
#include "tensora/data/csv.h"
#include "tensora/data/idx.h"
#include "tensora/data/image.h"
#include "tensora/io.h"
#include "tensora/io/safetensors_header.h"
#include "tensora/io/unpickler.h"
#include "tensora/io/zip_reader.h"
#include "tensora/onnx/export.h"
#include "tensora/onnx/import.h"
#include "tensora/ops.h"

namespace tensora::fuzz {
namespace {

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// The header is fuzzed alone, too: a mutation of a whole file rarely keeps its length right.
void safetensors(std::string_view input) {
  const MemoryFile file(input);
  io::load_safetensors(file.path());
}

void safetensors_header(std::string_view input) {
  const auto header = io::parse_safetensors_header(input, 64);
  io::parse_safetensors_header(io::print_safetensors_header(header), 64);
}

std::vector<std::string> headers() {
  return {
      R"({"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]},)"
      R"("b":{"dtype":"I64","shape":[4],"data_offsets":[32,64]},"__metadata__":{"format":"pt"}})",
      R"({"e":{"dtype":"BF16","shape":[0,3],"data_offsets":[0,0]},)"
      R"("f":{"dtype":"F8_E4M3","shape":[8,8],"data_offsets":[0,64]}})"};
}

void npy(std::string_view input) {
  const MemoryFile file(input);
  io::load_npy(file.path());
}

void npz(std::string_view input) {
  const MemoryFile file(input);
  io::load_npz(file.path());
}

// Checksums are not compared: a fuzzer does not find them.
void pytorch(std::string_view input) {
  const MemoryFile file(input);
  io::load_pytorch(file.path(), {.verify = false});
}

void pickle(std::string_view input) {
  const auto storage = [](const std::string&, std::optional<DType> dtype, int64_t count) {
    const int64_t bytes = count * dtype_info(dtype.value_or(kUInt8)).block_bytes;
    check(count >= 0 && count <= 4096, "a storage of ", count, " elements");
    return zeros({bytes}, {.dtype = kUInt8});
  };
  io::Unpickler(io::bytes_of_text(input), storage).load();
}

std::vector<std::string> pickles() {
  std::vector<std::string> list;
  for (const std::string& archive : files_in("io/goldens", ".pt")) try {
      const MemoryFile file(archive);
      const io::ZipReader reader(io::MappedFile::open(file.path()));
      for (const io::ZipEntry& entry : reader.entries())
        if (entry.name.ends_with("data.pkl")) {
          const io::OwnedBytes contents = reader.read(entry, false);
          list.emplace_back(contents.bytes.begin(), contents.bytes.end());
        }
    } catch (const Error&) {  // NOLINT: one of them is older than the zip format
    }
  return list;
}

void image(std::string_view input) { data::decode_image(io::bytes_of_text(input)); }

std::vector<std::string> images() {
  const Tensor gray = arange(35).view({1, 5, 7}).to(kUInt8);
  const Tensor color = arange(3 * 35).view({3, 5, 7}).to(kUInt8);
  return {text_of(data::encode_png(gray)), text_of(data::encode_png(color)),
          text_of(data::encode_png(cat({color, gray}))), text_of(data::encode_jpeg(gray)),
          text_of(data::encode_jpeg(color))};
}

void csv(std::string_view input) {
  data::parse_csv(input);
  data::parse_csv(input, {.header = false, .delimiter = ';', .missing = 0.0});
}

void idx(std::string_view input) { data::decode_idx(io::bytes_of_text(input)); }

std::vector<std::string> idx_files() {
  std::string labels("\0\0\x08\x01\0\0\0\x03\1\2\3", 11);
  std::string images("\0\0\x0d\x02\0\0\0\x01\0\0\0\x01\0\0\x80\x3f", 16);
  return {std::move(labels), std::move(images)};
}

// A graph is checked, too, and written again if it is right; it is not run.
void onnx_model(std::string_view input) {
  const onnx::ModelProto model = onnx::parse_model(input);
  const onnx::Program program(model);
  onnx::parse_model(onnx::serialize_model(model));
}

std::vector<std::string> onnx_models() {
  const Tensor weight = arange(6).view({2, 3}).to(kFloat32), bias = ones({2});
  const jit::Function functions[] = {
      [&](std::span<const Tensor> in) {
        return std::vector<Tensor>{softmax(linear(in[0], weight, bias), -1)};
      },
      [](std::span<const Tensor> in) {
        return std::vector<Tensor>{in[0].slice(1, 1).t().reshape({-1}),
                                   std::get<0>(topk(in[0], 2, 1))};
      }};
  std::vector<std::string> files;
  for (const jit::Function& function : functions)
    files.push_back(onnx::serialize_model(
        onnx::export_model(function, std::vector<Tensor>{ones({4, 3})},
                           {.input_names = {"x"}, .dynamic_axes = {{"x", {{0, "n"}}}}})));
  return files;
}

const Target kTargets[] = {
    {"safetensors", safetensors, [] { return files_in("io/goldens", ".safetensors"); }},
    {"safetensors_header", safetensors_header, headers},
    {"npy", npy, [] { return files_in("io/goldens", ".npy"); }},
    {"npz", npz, [] { return files_in("io/goldens", ".npz"); }},
    {"pytorch", pytorch, [] { return files_in("io/goldens", ".pt"); }},
    {"pickle", pickle, pickles},
    {"image", image, images},
    {"csv", csv,
     [] {
       return std::vector<std::string>{"a,b\n1,2\n3,4\n", "1;2\r\n;4e5\r\n",
                                       "\"x,y\",\"a\"\"b\"\n-0.5,nan\n"};
     }},
    {"idx", idx, idx_files},
    {"onnx", onnx_model, onnx_models},
};

}  // namespace

std::span<const Target> file_targets() { return kTargets; }

}  // namespace tensora::fuzz
