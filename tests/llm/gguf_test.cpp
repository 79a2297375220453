// GGUF files: what is written is read again, real files are read, bad ones are refused by name.

#include <sys/resource.h>

#include <random>

#include "../io/files.h"
#include "tensora/llm/gguf/gguf_reader.h"
#include "tensora/llm/gguf/gguf_writer.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using testing::identical;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

Metadata all_types() {
  Metadata metadata;
  metadata.set("general.architecture", "llama");
  metadata.set("a.uint8", 200, MetadataType::uint8);
  metadata.set("a.int8", -100, MetadataType::int8);
  metadata.set("a.uint16", 60000, MetadataType::uint16);
  metadata.set("a.int16", -30000, MetadataType::int16);
  metadata.set("a.uint32", 4000000000);
  metadata.set("a.int32", -7);
  metadata.set("a.uint64", int64_t{1} << 40);
  metadata.set("a.int64", -(int64_t{1} << 40));
  metadata.set("a.float32", 0.1);
  metadata.set("a.float64", 123456789.0123, MetadataType::float64);
  metadata.set("a.bool", true);
  metadata.set("a.text", "größe");
  metadata.set("a.empty", "");
  metadata.set("a.integers", std::vector<int64_t>{1, -2, 3});
  metadata.set("a.bools", std::vector<int64_t>{1, 0}, MetadataType::boolean);
  metadata.set("a.floats", std::vector<double>{0.5, -1.5});
  metadata.set("a.texts", std::vector<std::string>{"x", "", "yz"});
  metadata.set("a.none", std::vector<std::string>{});
  return metadata;
}

StateDict some_tensors() {
  StateDict tensors;
  tensors.insert("float", rand({3, 64}));
  for (DType dtype : {kFloat16, kBFloat16, kFloat64, kInt8, kInt16, kInt32, kInt64})
    tensors.insert(std::string(name(dtype)), arange(10).view({2, 5}).to(dtype));
  for (const DTypeInfo& info : dtype_info_table)
    if (info.category == Category::quantized && info.dtype != kNF4)
      tensors.insert(std::string(info.name), quantize(rand({2, 512}), info.dtype));
  tensors.insert("four", rand({2, 3, 4, 5}));
  tensors.insert("row", rand({7}));
  tensors.insert("number", rand({}));
  tensors.insert("nothing", rand({0, 32}));
  return tensors;
}

TEST(Gguf, reads_what_it_writes) {
  const TemporaryFolder folder;
  const StateDict tensors = some_tensors();
  for (int64_t alignment : {8, 32, 4096}) {
    Metadata metadata = all_types();
    metadata.set("general.alignment", alignment);
    write_gguf(folder / "x.gguf", metadata, tensors);
    const ModelFile file = ModelFile::open(folder / "x.gguf");
    ASSERT_EQ(file.metadata().size(), metadata.size());
    for (auto a = metadata.begin(), b = file.metadata().begin(); a != metadata.end(); ++a, ++b) {
      EXPECT_EQ(a->first, b->first);
      EXPECT_EQ(a->second.type(), b->second.type()) << a->first;
      const bool rounded = a->first == "a.float32";
      EXPECT_TRUE(rounded || a->second.contents() == b->second.contents()) << a->first;
    }
    EXPECT_FLOAT_EQ(static_cast<float>(file.metadata().get<double>("a.float32")), 0.1f);
    ASSERT_EQ(file.names().size(), tensors.size());
    for (const auto& [name, tensor] : tensors) EXPECT_TRUE(identical(file.tensor(name), tensor));
    EXPECT_EQ(file.architecture(), "llama");
    EXPECT_FALSE(file.rope_in_halves());
    EXPECT_EQ(file.folder(), "");
  }
}

TEST(Gguf, tensors_outlive_the_file_and_share_its_pages) {
  const TemporaryFolder folder;
  write_gguf(folder / "x.gguf", all_types(), StateDict{{"w", arange(64.0)}});
  Tensor a, b;
  {
    const ModelFile file = ModelFile::open(folder / "x.gguf");
    a = file.tensor("w");
    b = file.tensor("w");
  }
  EXPECT_EQ(a.data_ptr(), b.data_ptr());
  std::filesystem::remove(folder / "x.gguf");
  EXPECT_TRUE(identical(a, arange(64.0)));
}

TEST(Gguf, metadata_is_typed) {
  const Metadata metadata = all_types();
  EXPECT_EQ(metadata.get<int64_t>("a.int8"), -100);
  EXPECT_EQ(metadata.get_or("a.uint16", 1), 60000);
  EXPECT_EQ(metadata.get_or("absent", 5), 5);
  EXPECT_EQ(metadata.get_or("absent", "text"), "text");
  EXPECT_EQ(error_of([&] { (void)metadata.get<int64_t>("absent"); }),
            "metadata: there is no key 'absent'; expected an integer");
  EXPECT_EQ(error_of([&] { (void)metadata.get<int64_t>("a.float32"); }),
            "metadata: 'a.float32': expected an integer, got float32");
  EXPECT_EQ(error_of([&] { (void)metadata.get<std::vector<double>>("a.texts"); }),
            "metadata: 'a.texts': expected an array of floating numbers, got array of 3 string");
  EXPECT_EQ(error_of([&] { (void)metadata.get_or("a.text", 1); }),
            "metadata: 'a.text': expected an integer, got string");
  Metadata changed = metadata;
  EXPECT_TRUE(contains(error_of([&] { changed.set("k", 300, MetadataType::uint8); }),
                       "300 does not fit into uint8"));
  EXPECT_TRUE(contains(error_of([&] { changed.set("k", "x", MetadataType::uint8); }),
                       "a string cannot be stored as uint8"));
  EXPECT_TRUE(changed.erase("a.uint8"));
  EXPECT_FALSE(changed.erase("a.uint8"));
  EXPECT_EQ(changed.get<int64_t>("a.int8"), -100);
  EXPECT_EQ(changed.size(), metadata.size() - 1);
}

TEST(Gguf, split_models_are_one) {
  const TemporaryFolder folder;
  const auto part = [&](int64_t number, int64_t count, const StateDict& tensors) {
    Metadata metadata;
    if (number == 0) metadata = all_types();
    metadata.set("split.no", number, MetadataType::uint16);
    metadata.set("split.count", count, MetadataType::uint16);
    metadata.set("split.tensors.count", 3, MetadataType::int32);
    write_gguf(folder / concat("m-0000", number + 1, "-of-0000", count, ".gguf"), metadata,
               tensors);
  };
  part(0, 3, {{"a", ones({2})}});
  part(1, 3, {{"b", ones({3})}});
  EXPECT_TRUE(contains(error_of([&] { ModelFile::open(folder / "m-00001-of-00003.gguf"); }),
                       "m-00003-of-00003.gguf"));
  part(2, 3, {{"c", arange(4.0)}});
  const ModelFile file = ModelFile::open(folder / "m-00001-of-00003.gguf");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(identical(file.tensor("c"), arange(4.0)));
  EXPECT_TRUE(contains(error_of([&] { ModelFile::open(folder / "m-00002-of-00003.gguf"); }),
                       "general.architecture"));
  part(2, 3, {{"b", ones({3})}});
  EXPECT_TRUE(contains(error_of([&] { ModelFile::open(folder / "m-00001-of-00003.gguf"); }),
                       "the tensor 'b' is there twice"));
  part(2, 3, {{"c", ones({3})}, {"d", ones({1})}});
  EXPECT_TRUE(contains(error_of([&] { ModelFile::open(folder / "m-00001-of-00003.gguf"); }),
                       "have 4 tensors; expected 3"));
}

TEST(Gguf, writer_refuses_what_readers_would) {
  const TemporaryFolder folder;
  const auto refused = [&](const StateDict& tensors, Metadata metadata = {}) {
    return error_of([&] { write_gguf(folder / "x.gguf", metadata, tensors); });
  };
  EXPECT_TRUE(contains(refused({{"x", ones({1, 1, 1, 1, 1})}}), "expected at most 4"));
  EXPECT_TRUE(contains(refused({{std::string(64, 'x'), ones({1})}}), "expected 1 to 63"));
  EXPECT_TRUE(contains(refused({{"", ones({1})}}), "expected 1 to 63"));
  EXPECT_TRUE(contains(refused({{"\xff", ones({1})}}), "not UTF-8"));
  EXPECT_TRUE(contains(refused({{"x", ones({1}, {.dtype = kComplex64})}}), "does not have"));
  Metadata odd;
  odd.set("general.alignment", 24);
  EXPECT_TRUE(contains(refused({{"x", ones({1})}}, odd), "power of two"));
  TensorSource liar{"x", kFloat32, {2}, [] { return ones({3}); }};
  EXPECT_TRUE(contains(error_of([&] {
                         write_gguf(folder / "x.gguf", {}, {&liar, 1});
                       }),
                       "was announced as float32 [2]"));
  EXPECT_TRUE(folder.names().empty());  // no half-written file
  EXPECT_TRUE(contains(error_of([&] { write_gguf("/no/such/folder/x.gguf", {}, StateDict{}); }),
                       "No such file"));
}

}  // namespace
}  // namespace tensora::llm
