#include "files.h"

namespace tensora::testing {
namespace {

TEST(Npy, reads_what_numpy_wrote) {
  const std::pair<const char*, DType> files[] = {{"bool", kBool},
                                                 {"uint8", kUInt8},
                                                 {"int8", kInt8},
                                                 {"int16", kInt16},
                                                 {"uint16", kUInt16},
                                                 {"uint32", kUInt32},
                                                 {"uint64", kUInt64},
                                                 {"int32", kInt32},
                                                 {"int64", kInt64},
                                                 {"float16", kFloat16},
                                                 {"float32", kFloat32},
                                                 {"float64", kFloat64},
                                                 {"complex64", kComplex64},
                                                 {"complex128", kComplex128},
                                                 {"int16_big", kInt16},
                                                 {"float64_big", kFloat64},
                                                 {"complex64_big", kComplex64}};
  for (const auto& [name, dtype] : files)
    EXPECT_TRUE(identical(io::load_npy(golden(concat(name, ".npy"))), counting({2, 3}, dtype)))
        << name;
  EXPECT_TRUE(identical(io::load_npy(golden("number.npy")), full({}, 2.5)));
  EXPECT_TRUE(identical(io::load_npy(golden("empty.npy")), empty({0, 4})));
  EXPECT_TRUE(identical(io::load_npy(golden("version2.npy")), counting({5}, kFloat64)));
  EXPECT_TRUE(identical(io::load_npy(golden("version3.npy")), counting({5}, kFloat64)));
  const Tensor fortran = io::load_npy(golden("fortran.npy"));
  EXPECT_TRUE(identical(fortran, counting({2, 3, 4}, kFloat64)));
  EXPECT_EQ(fortran.strides(), Strides({1, 2, 6}));
}

TEST(Npy, reads_archives_that_numpy_wrote) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const StateDict arrays = io::load_npz(golden(name));
    EXPECT_EQ(arrays.size(), 3u);
    EXPECT_TRUE(identical(arrays["weights"], counting({10, 100}, kFloat32))) << name;
    EXPECT_TRUE(identical(arrays["labels"], counting({4}, kInt64))) << name;
    EXPECT_EQ(arrays["number"].item<double>(), 1);
  }
  EXPECT_TRUE(identical(io::load_npz(golden("zip64.npz"))["labels"], counting({4}, kInt64)));
}

TEST(Npy, refuses_what_it_cannot_hold) {
  const auto error = [](const char* name) { return error_of([&] { io::load_npy(golden(name)); }); };
  EXPECT_TRUE(contains(error("objects.npy"), "Python objects, which are not loaded"));
  EXPECT_TRUE(contains(error("records.npy"), "records"));
  const TemporaryFolder folder;
  EXPECT_TRUE(contains(error_of([&] { io::save_npy(ones({2}, kBFloat16), folder / "x.npy"); }),
                       "save_npy: 'tensor' is a bfloat16 tensor"));
  EXPECT_TRUE(folder.names().empty());
}

TEST(Npy, round_trips) {
  const TemporaryFolder folder;
  StateDict all;
  for (DType dtype : element_dtypes()) {
    if (dtype == kBFloat16 || dtype == kFloat8E4M3 || dtype == kFloat8E5M2) continue;
    for (const Tensor& tensor : {counting({2, 3}, dtype), counting({2, 3}, dtype).t(),
                                 counting({7}, dtype), counting({1}, dtype)[0],
                                 counting({0, 3}, dtype), counting({9}, dtype).slice(0, 1, 9, 2)}) {
      io::save_npy(tensor, folder / "x.npy");
      EXPECT_TRUE(identical(io::load_npy(folder / "x.npy"), tensor));
      all.insert(std::to_string(all.size()), tensor);
    }
  }
  for (bool compressed : {false, true}) {
    io::save_npz(all, folder / "x.npz", {.compressed = compressed});
    const StateDict loaded = io::load_npz(folder / "x.npz");
    ASSERT_EQ(loaded.size(), all.size());
    for (const auto& [name, tensor] : all) EXPECT_TRUE(identical(loaded[name], tensor));
  }
  const Tensor large = randn({300, 1000});
  io::save_npz({{"large", large}}, folder / "x.npz", {.compressed = true});
  EXPECT_TRUE(identical(io::load_npz(folder / "x.npz")["large"], large));
}

TEST(Npy, bad_headers_are_refused) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& header, const std::string& data, char version = 1) {
    std::string file = std::string("\x93NUMPY") + version + '\0';
    file += static_cast<char>(header.size() & 255);
    file += static_cast<char>(header.size() >> 8);
    write_file(folder / "x.npy", file + header + data);
    return error_of([&] { io::load_npy(folder / "x.npy"); });
  };
  const struct {
    const char *header, *data, *part;
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "abcd", ""},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "abc", "but there are 3"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "abcde", "but there are 5"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "abcd", "not a number"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905,)}", "abcd",
       "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "", "number"},
      {"{'descr': '<f4', 'fortran_order': 1, 'shape': (1,), }", "abcd", "True or False"},
      {"{'descr': '<f4', 'shape': (1,), }", "abcd", "needs"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "abcd", "'descr'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", "abcd", "followed"},
      {"{'descr': '<f4, 'fortran_order': False", "", ""},
      {"{'descr': '<f4", "", "does not end"},
      {"__import__('os').system('true')", "", "damaged"},
      {"", "", "damaged"},
      {"{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", "ab", "'<V2'"},
      {"{'descr': '', 'fortran_order': False, 'shape': (1,), }", "ab", "''"},
  };
  bool first = true;
  for (const auto& [header, data, part] : cases) {
    const std::string message = error(header, data);
    EXPECT_EQ(message.empty(), first) << header;
    EXPECT_TRUE(contains(message, part)) << message << "\nfor " << header;
    first = false;
  }
  EXPECT_TRUE(contains(error("", "", 4), "version 4"));
}

// A few megabytes of zeros can unpack to gigabytes; the directory says so before.
TEST(Npz, archives_that_would_unpack_to_far_more_are_refused) {
  const TemporaryFolder folder;
  std::string file = read_file(golden("deflated.npz"));
  const size_t entry = file.find("PK\1\2");
  ASSERT_NE(entry, file.npos);
  const uint32_t bytes = 1u << 30;
  std::memcpy(file.data() + entry + 24, &bytes, sizeof bytes);
  write_file(folder / "x.npz", file);
  const std::string error = error_of([&] { io::load_npz(folder / "x.npz"); });
  EXPECT_TRUE(contains(error, "the archive would take 10737")) << error;
  EXPECT_TRUE(contains(error, "raise TENSORA_UNPACK_LIMIT")) << error;
}

}  // namespace
}  // namespace tensora::testing
