#include "files.h"
#include "tensora/io/atomic_file.h"
#include "tensora/io/zip_writer.h"

namespace tensora::testing {
namespace {

class Everything : public ::testing::TestWithParam<const char*> {
 protected:
  Value file_ = io::load(golden(GetParam()));
};

TEST_P(Everything, tensors_of_every_dtype) {
  for (DType dtype : element_dtypes()) {
    const Tensor tensor = file_.at("dtypes").at(std::string(name(dtype))).to_tensor();
    EXPECT_TRUE(identical(tensor, counting({4}, kInt64).to(dtype))) << name(dtype);
  }
}

TEST_P(Everything, views_share_their_storage) {
  const Value& views = file_.at("views");
  const Tensor base = views.at("base").to_tensor(), part = views.at("part").to_tensor();
  const Tensor transposed = views.at("transposed").to_tensor();
  EXPECT_EQ(values(part), (Values{2, 4, 6}));
  EXPECT_EQ(transposed.strides(), Strides({1, 4}));
  base.fill_(5);
  EXPECT_EQ(values(part), (Values{5, 5, 5}));
  EXPECT_TRUE(base.shares_storage(transposed));
  const Value& tied = file_.at("tied");
  EXPECT_TRUE(tied.at(0).to_tensor().is_same(tied.at(1).to_tensor()));
  EXPECT_TRUE(tied.at(0).to_tensor().is_same(base));
}

TEST_P(Everything, shapes_and_parameters) {
  const Value& shapes = file_.at("shapes");
  EXPECT_EQ(shapes.at("empty").to_tensor().sizes(), Shape({0, 3}));
  EXPECT_EQ(shapes.at("number").to_tensor().item<int64_t>(), 7);
  EXPECT_EQ(shapes.at("expanded").to_tensor().strides(), Strides({0}));
  EXPECT_TRUE(file_.at("parameter").to_tensor().requires_grad());
  EXPECT_FALSE(file_.at("model").at("0.weight").to_tensor().requires_grad());
}

TEST_P(Everything, state_of_a_model_and_its_optimizer) {
  const StateDict model = file_.at("model").to_state_dict();
  EXPECT_EQ(model.size(), 7u);
  EXPECT_EQ(model["1.num_batches_tracked"].item<int64_t>(), 0);
  const Value& group = file_.at("optimizer").at("param_groups").at(0);
  EXPECT_EQ(group.at("lr").to_double(), 0.25);
  EXPECT_EQ(group.at("betas").at(1).to_double(), 0.999);
  EXPECT_EQ(group.at("params").size(), 4u);
  EXPECT_EQ(file_.at("optimizer").at("state").at(3).at("step").to_tensor().item<double>(), 1);
}

TEST_P(Everything, plain_values) {
  const Value& plain = file_.at("plain");
  EXPECT_TRUE(plain.at("none").is_none());
  EXPECT_TRUE(plain.at("true").to_bool());
  EXPECT_EQ(plain.at("small").to_int(), 3);
  EXPECT_EQ(plain.at("negative").to_int(), -70000);
  EXPECT_EQ(plain.at("large").to_int(), int64_t{1} << 40);
  EXPECT_EQ(plain.at("smallest").to_int(), INT64_MIN);
  EXPECT_EQ(plain.at("number").to_double(), 2.5);
  EXPECT_EQ(plain.at("text").to_string(), "größe");
  EXPECT_EQ(plain.at("tuple").at(1).at(1).to_string(), "x");
  EXPECT_EQ(plain.at("list").size(), 0u);
  EXPECT_EQ(plain.at("set").at(0).to_int(), 5);
  EXPECT_EQ(plain.at(7).to_string(), "seven");
  EXPECT_EQ(plain.at("size").at(1).to_int(), 3);
  EXPECT_EQ(plain.at("dtype").to_string(), "torch.bfloat16");
  EXPECT_EQ(plain.at("device").to_string(), "cuda:1");
  EXPECT_EQ(plain.at("bytes").to_string(), std::string("\0\xff", 2));
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Everything,
                         ::testing::Values("everything.pt", "protocol3.pt", "protocol4.pt",
                                           "protocol5.pt"));

TEST(PyTorch, other_files_are_refused_with_a_reason) {
  const auto error = [](const char* name) { return error_of([&] { io::load(golden(name)); }); };
  EXPECT_TRUE(contains(error("legacy.pt"), "torch.save it again"));
  EXPECT_TRUE(contains(error("module.pt"), "'torch.nn.modules.linear.Linear', which is refused"));
  EXPECT_TRUE(contains(error("script.pt"), "TorchScript"));
  EXPECT_TRUE(contains(error("no-such-file.pt"), "cannot be opened: No such file"));
  EXPECT_TRUE(contains(error(""), "it is a folder"));
  EXPECT_TRUE(contains(error("../make_goldens.py"), "it is none of"));
}

TEST(PyTorch, round_trip) {
  const TemporaryFolder folder;
  Value value = Value::dict();
  value["none"] = Value();
  value["numbers"] =
      Value::List{0, 255, 256, -1, INT64_MAX, INT64_MIN, int64_t{1} << 31, 0.1, true};
  value["text"] = "größe \xf0\x9f\x8c\x8d";
  value["empty"]["list"] = Value::list();
  value["empty"]["dict"] = Value::dict();
  value[Value::Key(int64_t{-3})] = 1;
  for (DType dtype : element_dtypes()) {
    Value& entry = value["dtypes"][std::string(name(dtype))];
    entry = Value::List{counting({2, 3}, dtype), counting({2, 3}, dtype).t(),
                        counting({1}, dtype)[0], counting({0, 2}, dtype)};
  }
  const Tensor base = arange(10.0);
  value["base"] = base;
  value["part"] = base.slice(0, 2, 8, 3);
  value["leaf"] = ones({2}).requires_grad_();
  value["expanded"] = ones({1}).expand({1000000});
  io::save(value, folder / "x.pt");
  EXPECT_LT(std::filesystem::file_size(folder / "x.pt"), 30000u);

  const Value loaded = io::load(folder / "x.pt");
  ASSERT_EQ(loaded.size(), value.size());
  for (size_t i = 0; i < value.size(); ++i)
    EXPECT_EQ(loaded.to_dict()[i].first, value.to_dict()[i].first);
  EXPECT_TRUE(loaded.at("none").is_none());
  const Value::List& numbers = value.at("numbers").to_list();
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ(loaded.at("numbers").at(i).to_int(), numbers[static_cast<size_t>(i)].to_int());
  EXPECT_EQ(loaded.at("numbers").at(7).to_double(), 0.1);
  EXPECT_TRUE(loaded.at("numbers").at(8).is_bool());
  EXPECT_EQ(loaded.at("text").to_string(), value.at("text").to_string());
  EXPECT_EQ(loaded.at("empty").at("list").size() + loaded.at("empty").at("dict").size(), 0u);
  EXPECT_EQ(loaded.at(-3).to_int(), 1);
  for (const auto& [key, list] : value.at("dtypes").to_dict())
    for (int i = 0; i < 4; ++i) {
      const Tensor a = loaded.at("dtypes").at(key).at(i).to_tensor(), b = list.at(i).to_tensor();
      EXPECT_TRUE(identical(a, b)) << to_text(key);
      EXPECT_EQ(a.strides(), b.strides());
    }
  const Tensor again = loaded.at("base").to_tensor(), part = loaded.at("part").to_tensor();
  EXPECT_TRUE(again.shares_storage(part));
  EXPECT_TRUE(identical(part, value.at("part").to_tensor()));
  EXPECT_TRUE(loaded.at("leaf").to_tensor().requires_grad());
  EXPECT_EQ(loaded.at("expanded").to_tensor().strides(), Strides({0}));
}

TEST(PyTorch, what_cannot_be_saved) {
  const TemporaryFolder folder;
  const auto error = [&](const Value& value) {
    return error_of([&] { io::save(value, folder / "x.pt"); });
  };
  const Tensor floats = ones({4});
  EXPECT_TRUE(contains(error(Value::List{floats, floats.view(kInt32)}), "share memory"));
  EXPECT_TRUE(contains(error(Tensor()), "undefined"));
  EXPECT_TRUE(contains(error(empty({2}, {.device = "meta"})), "meta"));
  EXPECT_TRUE(contains(error("\xff"), "UTF-8"));
  EXPECT_TRUE(contains(error("\xc0\x80"), "UTF-8"));
  EXPECT_TRUE(contains(error("\xed\xa0\x80"), "UTF-8"));
  Value deep = 1;
  for (int i = 0; i < 200; ++i) deep = Value(Value::List{deep});
  EXPECT_TRUE(contains(error(deep), "nested deeper"));
  EXPECT_TRUE(contains(error_of([&] { io::save(1, folder / "x.txt"); }), "must end in .pt"));
  EXPECT_TRUE(folder.names().empty());
}

// ---- hostile pickles

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
                                                       {"torch", "uint16"},
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

TEST(Pickle, damaged_programs) {
  const std::string storage =
      "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "K\x02tQ";
  const std::string rebuild = "ctorch._utils\n_rebuild_tensor_v2\n(";
  const std::string hooks = "\x89}tR.";
  const struct {
    std::string pickle, part;
  } cases[] = {
      {"", "does not begin"},
      {"\x80", "does not begin"},
      {"\x80\x01.", "protocol 1"},
      {"\x80\x06.", "protocol 6"},
      {"\x80\x02", "ends too early"},
      {"\x80\x02.", "takes more than there is"},
      {"\x80\x02K", "ends too early"},
      {"\x80\x02X\xff\xff\xff\xff", "ends too early"},
      {std::string("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff", 11), "ends too early"},
      {"\x80\x02t.", "no mark"},
      {"\x80\x02(0t.", "no mark"},
      {"\x80\x02(R.", "takes more"},
      {"\x80\x02K\x01(\x85.", "takes more"},
      {"\x80\x02h\x07.", "nothing is remembered"},
      {"\x80\x02K\x01K\x02\x61.", "not a list"},
      {"\x80\x02}(K\x01u.", "not a dict"},
      {"\x80\x02K\x01)R.", "not a function"},
      {"\x80\x02"
       "ctorch\nFloatStorage\n)R.",
       "not a function of tensors"},
      {"\x80\x02"
       "ctorch\nSize\n.",
       "itself instead of a value"},
      {"\x80\x02"
       "ctorch\nSize\n)R.",
       "unexpected arguments"},
      {"\x80\x02K\x01}b.", "attributes"},
      {"\x80\x02i__main__\nX\n.", "instruction 105"},
      {"\x80\x02P1\n.", "instruction 80"},
      {"\x80\x02\x8a\x09"
       "123456789.",
       "integer of 9 bytes"},
      {"\x80\x02K\x01Q.", "not a storage"},
      {"\x80\x02" + storage + ".", "a storage outside a tensor"},
      {"\x80\x02" + rebuild + "tR.", "has 0 arguments"},
      {"\x80\x02" + rebuild + storage + "K\x00(K\x02t(K\x01t", "ends too early"},
      {"\x80\x02" + rebuild + storage + std::string("K\0", 2) + "(K\x03t(K\x01t" + hooks, "beyond"},
      {"\x80\x02" + rebuild + storage + "K\x02(K\x01t(K\x01t" + hooks, "beyond"},
      {"\x80\x02" + rebuild + storage + std::string("K\0", 2) + "(K\x02t(K\x02t" + hooks, "beyond"},
      {"\x80\x02" + rebuild + storage + "J\xff\xff\xff\xff(t(t" + hooks, "begins -1"},
      {"\x80\x02" + rebuild + storage + std::string("K\0", 2) + "(J\xff\xff\xff\xfft(K\x01t" +
           hooks,
       "negative"},
      {"\x80\x02" + rebuild + storage + std::string("K\0", 2) +
           "(\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ft(\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ft" +
           hooks,
       "tensor of the file"},
      {"\x80\x02(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") +
           "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ftQ.",
       "storage"},
      {"\x80\x02(" + text("storage") + "ctorch\nFloatStorage\n" + text("9") + text("cpu") +
           "K\x02tQ.",
       "no 'data/9'"},
      {"\x80\x02(" + text("storage") + "ctorch\nFloatStorage\n" + text("../version") + text("cpu") +
           "K\x01tQ.",
       "no 'data/../version'"},
      {"\x80\x02" + storage + "(" + text("storage") + "ctorch\nIntStorage\n" + text("0") +
           text("cpu") + "K\x02tQ.",
       "in two ways"},
  };
  for (const auto& [pickle, part] : cases) {
    const std::string error = error_of_pickle(pickle);
    EXPECT_TRUE(contains(error, part)) << error << "\nexpected " << part;
  }
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
