// Pickles that nobody should load.

#include "tensora/io/unpickler.h"

#include "files.h"
#include "tensora/io/zip_writer.h"

namespace tensora::testing {
namespace {

std::string error_of_pickle(const std::string& pickle) {
  const TemporaryFolder folder;
  {
    io::AtomicFile file(folder / "x.pt");
    io::ZipWriter archive(file);
    archive.store("x/data.pkl", io::bytes_of_text(pickle));
    archive.store("x/data/0", io::bytes_of_text("12345678"));
    archive.store("x/version", io::bytes_of_text("3\n"));
    archive.finish();
    file.commit();
  }
  return error_of([&] { io::load(folder / "x.pt"); });
}

std::string text(const std::string& s) {
  return "X" + std::string(1, static_cast<char>(s.size())) + std::string(3, '\0') + s;
}

TEST(Pickle, every_other_name_is_refused) {
  const std::pair<const char*, const char*> names[] = {{"os", "system"},
                                                       {"posix", "system"},
                                                       {"builtins", "eval"},
                                                       {"__builtin__", "exec"},
                                                       {"builtins", "getattr"},
                                                       {"subprocess", "Popen"},
                                                       {"torch", "load"},
                                                       {"torch.hub", "load"},
                                                       {"collections", "defaultdict"},
                                                       {"torch", "qint8"},
                                                       {"numpy", "_reconstruct"},
                                                       {"torch._utils", "_rebuild_sparse_tensor"}};
  for (const auto& [module, name] : names) {
    const std::string full = concat(
        "'", std::string_view(module) == "__builtin__" ? "builtins" : module, ".", name, "'");
    const std::string call = text("echo") + "\x85R.";
    const std::string old =
        error_of_pickle(concat("\x80\x02", "c", module, "\n", name, "\n", call));
    EXPECT_TRUE(contains(old, full + ", which is refused")) << old;
    const std::string stacked =
        error_of_pickle(concat("\x80\x04", text(module), text(name), "\x93", call));
    EXPECT_TRUE(contains(stacked, full + ", which is refused")) << stacked;
  }
}

struct Case {
  std::string pickle, part;
};

// Each pickle without its protocol, and part of the error.
void expect_errors(const std::vector<Case>& cases) {
  for (const auto& [pickle, part] : cases) {
    const std::string error = error_of_pickle("\x80\x02" + pickle);
    EXPECT_TRUE(contains(error, part)) << error << "\nexpected " << part;
  }
}

TEST(Pickle, damaged_programs) {
  EXPECT_TRUE(contains(error_of_pickle(""), "does not begin"));
  EXPECT_TRUE(contains(error_of_pickle("\x80"), "does not begin"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\x01."), "protocol 1"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\x06."), "protocol 6"));
  expect_errors({
      {"", "ends too early"},
      {".", "takes more than there is"},
      {"K", "ends too early"},
      {"X\xff\xff\xff\xff", "ends too early"},
      {"\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "ends too early"},
      {"t.", "no mark"},
      {"(0t.", "no mark"},
      {"(R.", "takes more"},
      {"K\x01(\x85.", "takes more"},
      {"h\x07.", "nothing is remembered"},
      {"K\x01K\x02\x61.", "not a list"},
      {"}(K\x01u.", "not a dict"},
      {"}(]K\x01u.", "neither a text nor an integer"},
      {"K\x01)R.", "not a function"},
      {"ctorch\nFloatStorage\n)R.", "not a function of tensors"},
      {"ctorch\nSize\n.", "itself instead of a value"},
      {"ctorch\nSize\n)R.", "unexpected arguments"},
      {"K\x01}b.", "attributes"},
      {"i__main__\nX\n.", "instruction 105"},
      {"P1\n.", "instruction 80"},
      {"\x8a\x09" + std::string(9, '1') + ".", "integer of 9 bytes"},
      {"K\x01Q.", "not a storage"},
  });
}

TEST(Pickle, damaged_tensors) {
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  const auto storage = [](const std::string& type, const std::string& key,
                          const std::string& count) {
    return "(" + text("storage") + "ctorch\n" + type + "Storage\n" + text(key) + text("cpu") +
           count + "tQ";
  };
  const auto tensor = [&](const std::string& offset, const std::string& sizes,
                          const std::string& strides) {
    return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage("Float", "0", "K\x02") + offset + "(" +
           sizes + "t(" + strides + "t\x89}tR.";
  };
  const std::string zero("K\0", 2), minus_one = "J\xff\xff\xff\xff";
  EXPECT_EQ(error_of_pickle("\x80\x02" + tensor(zero, "K\x02", "K\x01")), "");
  expect_errors({
      {tensor(zero, "K\x03", "K\x01"), "beyond"},
      {tensor("K\x02", "K\x01", "K\x01"), "beyond"},
      {tensor(zero, "K\x02", "K\x02"), "beyond"},
      {tensor(minus_one, "", ""), "begins -1"},
      {tensor(zero, minus_one, "K\x01"), "negative"},
      {tensor(zero, "K\x02", minus_one), "negative"},
      {tensor(zero, huge, huge), "tensor of the file"},
      {tensor(huge, "K\x01", "K\x01"), "tensor of the file"},
      {tensor(zero, "K\x02", ""), "but strides"},
      {tensor(zero, "NNNNNNNNN", ""), "not an integer"},
      {tensor("N", "K\x02", "K\x01"), "not an integer"},
      {"ctorch._utils\n_rebuild_tensor_v2\n(tR.", "has 0 arguments"},
      {"ctorch._utils\n_rebuild_tensor_v2\n(NNNNNNtR.", "has no storage"},
      {storage("Float", "0", "K\x02") + ".", "a storage outside a tensor"},
      {storage("Float", "0", "K\x03") + ".", "should have 3 elements of 4 bytes, but has 8"},
      {storage("Float", "0", huge) + ".", "storage"},
      {storage("Float", "0", minus_one) + ".", "should have -1"},
      {storage("Float", "9", "K\x02") + ".", "no 'data/9'"},
      {storage("Float", "../version", "K\x01") + ".", "no 'data/../version'"},
      {storage("Float", "0", "K\x02") + storage("Int", "0", "K\x02") + ".", "in two ways"},
  });
}

TEST(Pickle, deep_and_cyclic_structures_end) {
  const std::string proto = "\x80\x02";
  // A million lists in one another, made from inside out and from outside in, and a list in itself.
  std::string inside = proto + "]", outside = proto + "]q";
  for (int i = 0; i < 1000000; ++i) inside += "\x85";
  outside += '\0';
  for (int i = 0; i < 300000; ++i) outside += std::string("]q\1ah\1", 6);
  EXPECT_TRUE(contains(error_of_pickle(inside + "."), "nested deeper"));
  EXPECT_TRUE(contains(error_of_pickle(outside + std::string("h\0.", 3)), "nested deeper"));
  EXPECT_TRUE(contains(error_of_pickle(proto + std::string("]q\0h\0a.", 7)), "nested deeper"));
}

TEST(Pickle, many_small_objects_are_limited) {
  // One byte each, and an object of about a hundred bytes in memory.
  std::string lists = "\x80\x02";
  lists.append(size_t{6} << 20, ']');
  EXPECT_TRUE(contains(error_of_pickle(lists + "."), "raise TENSORA_UNPACK_LIMIT"));
}

TEST(Pickle, small_files_cannot_describe_huge_values) {
  const std::string proto = "\x80\x02";
  // Each list holds the one before ten times: 10^30 elements.
  std::string bomb = proto + "K\x01";
  for (int i = 0; i < 30; ++i) bomb += "q\x01(h\x01h\x01h\x01h\x01h\x01h\x01h\x01h\x01h\x01h\x01l";
  EXPECT_TRUE(contains(error_of_pickle(bomb + "."), "far more than it contains"));
  // One long text ten thousand times; copies of one long list.
  std::string texts = proto + "X" + std::string("\0\0\1\0", 4) + std::string(65536, 'a') + "q\x01(";
  for (int i = 0; i < 50000; ++i) texts += "h\x01";
  EXPECT_TRUE(contains(error_of_pickle(texts + "l."), "far more than it contains"));
  std::string copies = proto + "(";
  for (int i = 0; i < 100000; ++i) copies += "N";
  copies += "\x6c\x85q\x01";
  copies += "c__builtin__\nset\nq\x02";
  for (int i = 0; i < 50000; ++i) copies += "h\x02h\x01R0";
  EXPECT_TRUE(contains(error_of_pickle(copies + "N."), "far more than it contains"));
}

}  // namespace
}  // namespace tensora::testing
