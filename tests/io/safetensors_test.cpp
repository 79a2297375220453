#include "files.h"

namespace tensora::testing {
namespace {

std::string file_of(const std::string& header, const std::string& data = "") {
  std::string out;
  const uint64_t size = header.size();
  out.append(reinterpret_cast<const char*>(&size), 8);
  return out + header + data;
}

std::string error_for(const std::string& contents) {
  const TemporaryFolder folder;
  write_file(folder / "x.safetensors", contents);
  return error_of([&] { io::load_safetensors(folder / "x.safetensors"); });
}

TEST(Safetensors, reads_a_file_of_the_format) {
  const StateDict tensors = io::load_safetensors(golden("mixed.safetensors"));
  std::string names;
  for (const auto& [name, tensor] : tensors) names += name + " ";
  EXPECT_EQ(names, "f32 i64 bf16 empty number e4m3 flags ünï odd ");
  EXPECT_EQ(values(tensors["f32"]), (Values{0, 1, 2, 3}));
  EXPECT_EQ(tensors["f32"].sizes(), Shape({2, 2}));
  EXPECT_EQ(tensors["i64"].at<int64_t>({1}), int64_t{1} << 40);
  EXPECT_EQ(values(tensors["bf16"]), (Values{1, -2}));
  EXPECT_EQ(tensors["empty"].sizes(), Shape({0, 7}));
  EXPECT_EQ(tensors["number"].item<double>(), 1.5);
  EXPECT_EQ(values(tensors["e4m3"].to(kFloat32)), (Values{1, -2}));
  EXPECT_EQ(values(tensors["flags"]), (Values{1, 0, 1}));
  EXPECT_EQ(values(tensors["odd"]), (Values{5}));  // not aligned in the file
  const io::Metadata metadata = io::safetensors_metadata(golden("mixed.safetensors"));
  EXPECT_EQ(metadata, (io::Metadata{{"format", "pt"}, {"note", "größe"}}));
}

TEST(Safetensors, round_trip_of_every_dtype_and_layout) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  StateDict tensors;
  for (DType dtype : element_dtypes()) {
    if (dtype == kComplex128) continue;
    const std::string name(tensora::name(dtype));
    tensors.insert(name, counting({2, 3}, dtype));
    tensors.insert(name + ".transposed", counting({2, 3}, dtype).t());
    tensors.insert(name + ".every_second", counting({9}, dtype).slice(0, 1, 9, 2));
    tensors.insert(name + ".number", counting({1}, dtype)[0]);
    tensors.insert(name + ".empty", counting({0, 3}, dtype));
    tensors.insert(name + ".expanded", counting({1}, dtype).expand({4}));
  }
  tensors.insert("leaf", ones({3}).requires_grad_());
  tensors.insert("", ones({1}));
  tensors.insert("odd \"name\"\n\\", ones({1}));
  io::save_safetensors(tensors, path, {{"a", "b\""}, {"c", ""}});
  const StateDict loaded = io::load_safetensors(path);
  ASSERT_EQ(loaded.size(), tensors.size());
  auto other = loaded.begin();
  for (const auto& [name, tensor] : tensors) {  // in the same order, too
    EXPECT_EQ(other->first, name);
    EXPECT_TRUE(identical((other++)->second, tensor)) << name;
  }
  EXPECT_EQ(io::safetensors_metadata(path), (io::Metadata{{"a", "b\""}, {"c", ""}}));
  io::save_safetensors({}, path);
  EXPECT_TRUE(io::load_safetensors(path).empty());
}

TEST(Safetensors, loaded_tensors_outlive_the_file_and_never_change_it) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  io::save_safetensors({{"x", ones({1000})}}, path);
  const std::string before = read_file(path);
  const Tensor x = io::load_safetensors(path)["x"];
  x.add_(1);
  EXPECT_EQ(read_file(path), before);
  io::save_safetensors({{"x", zeros({10})}}, path);
  std::filesystem::remove(path);
  EXPECT_EQ(x.sum().item<double>(), 2000);
}

TEST(Safetensors, what_the_format_cannot_hold_is_refused) {
  const TemporaryFolder folder;
  const auto error = [&](const StateDict& tensors) {
    return error_of([&] { io::save_safetensors(tensors, folder / "x.safetensors"); });
  };
  EXPECT_EQ(error({{"x", ones({2}, kComplex128)}}),
            "save_safetensors: 'x' is a complex128 tensor, which this format cannot hold");
  EXPECT_TRUE(contains(error({{"x", Tensor()}}), "'x' is an undefined tensor"));
  EXPECT_TRUE(contains(error({{"x", empty({2}, {.device = "meta"})}}), "meta"));
  EXPECT_TRUE(contains(error({{"__metadata__", ones({2})}}), "cannot be called '__metadata__'"));
  EXPECT_TRUE(contains(error({{"\xff", ones({2})}}), "not valid UTF-8"));
  EXPECT_TRUE(folder.names().empty());
}

TEST(Safetensors, bad_headers_are_refused) {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  const struct {
    std::string contents, part;
  } cases[] = {
      {"", "ends too early"},
      {"1234567", "ends too early"},
      {file_of("{}").substr(0, 9), "ends too early"},
      {std::string(8, '\xff'), "at most 100000000"},
      {std::string("\0\0\0\5\0\0\0\0", 8), "ends too early"},
      {file_of(""), "not a JSON object"},
      {file_of("[]"), "not a JSON object"},
      {file_of("{\"x\":"), "not valid JSON"},
      {file_of("{} {}"), "not valid JSON"},
      {file_of(std::string(5000000, '{')), "not valid JSON"},
      {file_of("{\"x\":" + std::string(5000000, '[')), "a list where none is expected"},
      {file_of("{\"x\":1}"), "a number where none"},
      {file_of("{\"x\":{}}"), "are needed"},
      {file_of("{\"\xff\":{}}"), "not valid JSON"},
      {file_of(tensor("F32", "[2]", "[0,8]")), "is at bytes 0 to 8 of 0"},
      {file_of(tensor("F32", "[2]", "[0,4]"), "abcd"), "has 4 bytes instead of 8"},
      {file_of(tensor("F32", "[1]", "[0,4]"), "abcdefgh"), "the tensors end at byte 4 of 8"},
      {file_of(tensor("F32", "[1]", "[4,8]"), "abcdefgh"), "begins at byte 4, where 0"},
      {file_of(tensor("F32", "[1]", "[4,0]"), "abcd"), "is at bytes 4 to 0"},
      {file_of(tensor("F32", "[-1]", "[0,4]"), "abcd"), "a negative number"},
      {file_of(tensor("F32", "[1.0]", "[0,4]"), "abcd"), "not an integer"},
      {file_of(tensor("F32", "[1e0]", "[0,4]"), "abcd"), "not an integer"},
      {file_of(tensor("F32", "[18446744073709551616]", "[0,4]"), "abcd"), "not an integer"},
      {file_of(tensor("F32", "[18446744073709551615]", "[0,4]"), "abcd"), "too large"},
      {file_of(tensor("F32", "[4294967296,4294967296]", "[0,0]")), "shape"},
      {file_of(tensor("F32", "[4611686018427387905]", "[0,4]"), "abcd"), "shape"},
      {file_of(tensor("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), "abcd"), "too long"},
      {file_of(tensor("F32", "[1]", "[0]"), "abcd"), "two numbers"},
      {file_of(tensor("F31", "[2]", "[0,4]"), "abcd"), "type F31 are not supported"},
      {file_of(R"({"x":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), "twice"},
      {file_of(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"more":1}})"), "'more'"},
      {file_of(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
               R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
       "the name is there twice"},
      {file_of(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
               R"("y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
               "abc"),
       "overlap"},
      {file_of(R"({"__metadata__":{"a":1}})"), "a number where none"},
      {file_of(R"({"__metadata__":{"a":{"b":"c"}}})"), "an object where none"},
      {file_of(R"({"__metadata__":[]})"), "a list where none"},
  };
  for (const auto& [contents, part] : cases) {
    const std::string error = error_for(contents);
    EXPECT_TRUE(contains(error, part)) << error << "\nfor " << contents.substr(0, 100);
    EXPECT_TRUE(error.starts_with("load_safetensors: '")) << error;
  }
}

}  // namespace
}  // namespace tensora::testing
