#include "files.h"
#include "tensora/io/byte_reader.h"
#include "tensora/jit/lazy.h"

namespace tensora::testing {
namespace {

class Everything : public ::testing::TestWithParam<const char*> {
 protected:
  Value file_ = io::load(golden(GetParam()));
};

TEST_P(Everything, tensors_of_every_dtype) {
  for (DType dtype : element_dtypes()) {
    if (is_wide_unsigned(dtype)) continue;  // see unsigned_words
    const Tensor tensor = file_.at("dtypes").at(std::string(name(dtype))).to_tensor();
    EXPECT_TRUE(identical(tensor, counting({4}, kInt64).to(dtype))) << name(dtype);
  }
}

TEST(PyTorch, unsigned_words) {
  const Value file = io::load(golden("unsigned.pt"));
  for (DType dtype : {kUInt16, kUInt32, kUInt64}) {
    const Tensor tensor = file.at(std::string(name(dtype))).to_tensor();
    EXPECT_TRUE(identical(tensor, tensora::tensor({0, 1, -1}).to(dtype))) << name(dtype);
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
  EXPECT_EQ(plain.at("counter").at(3).to_int(), 2);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Everything,
                         ::testing::Values("everything.pt", "protocol3.pt", "protocol4.pt",
                                           "protocol5.pt", "legacy2.pt", "legacy4.pt"));

TEST(PyTorch, programs_of_torchscript_give_their_tensors) {
  const Value script = io::load(golden("script.pt"));
  EXPECT_TRUE(equal(script.at("0.weight").to_tensor(), arange(6, kFloat32).reshape({3, 2})));
  EXPECT_TRUE(equal(script.at("0.bias").to_tensor(), full({3}, 7.0)));
  EXPECT_TRUE(equal(script.at("1.running_var").to_tensor(), ones({3})));
  EXPECT_EQ(script.at("1.num_batches_tracked").to_tensor().item<int64_t>(), 0);
  EXPECT_EQ(script.size(), 7u);  // nothing but tensors
  EXPECT_FALSE(script.at("0.weight").to_tensor().requires_grad());
}

TEST(PyTorch, other_files_are_refused_with_a_reason) {
  const auto error = [](const char* name) { return error_of([&] { io::load(golden(name)); }); };
  EXPECT_TRUE(contains(error("module.pt"), "'torch.nn.modules.linear.Linear', which is refused"));
  EXPECT_TRUE(contains(error("no-such-file.pt"), "cannot be opened: No such file"));
  EXPECT_TRUE(contains(error(""), "it is a folder"));
  EXPECT_TRUE(contains(error("../make_goldens.py"), "it is none of"));
}

// Whatever is done to a file of the old format: it is loaded, or refused with a reason.
TEST(PyTorch, damaged_legacy_files) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.pt", whole = read_file(golden("legacy2.pt"));
  const auto outcome = [&](const std::string& bytes) {
    write_file(path, bytes);
    return error_of([&] { io::load(path); });
  };
  EXPECT_EQ(outcome(whole), "");
  for (size_t length = 1; length < whole.size(); length += 1 + length / 40)
    EXPECT_NE(outcome(whole.substr(0, length)), "") << length;
  for (size_t at = 0; at < whole.size(); at += 1 + at / 400) {
    std::string changed = whole;
    for (const int byte : {0, 0xff, changed[at] ^ 1}) {
      changed[at] = static_cast<char>(byte);
      outcome(changed);
    }
  }
  EXPECT_TRUE(contains(outcome("\x80\2K\1."), "a bare pickle"));
  EXPECT_TRUE(contains(outcome("\x80\2\x8a\4abcd."), "a bare pickle"));
  // The magic number takes 15 bytes.
  EXPECT_TRUE(contains(outcome(whole.substr(0, 15) + "\x80\2cos\nsystem\n."), "'os.system'"));
}

TEST(PyTorch, copies_and_parameters) {
  const TemporaryFolder folder;
  for (const char* name : {"everything.pt", "legacy2.pt"}) {
    std::filesystem::copy_file(golden(name), folder / name);
    std::vector<Tensor> parameters;
    const Value loaded = io::load(folder / name, {.copy = true, .parameters = &parameters});
    std::filesystem::resize_file(folder / name, 0);  // of a mapped file this would be fatal
    const Tensor parameter = loaded.at("parameter").to_tensor();
    EXPECT_EQ(values(parameter), (Values{1, 1}));
    ASSERT_EQ(parameters.size(), 1u);
    EXPECT_TRUE(parameters[0].is_same(parameter));
    // What shared memory shares it, and what repeats a number keeps doing so.
    const Value& views = loaded.at("views");
    EXPECT_TRUE(views.at("base").to_tensor().shares_storage(views.at("part").to_tensor()));
    EXPECT_EQ(loaded.at("shapes").at("expanded").to_tensor().strides(), Strides({0}));
    // Written again, it is still a parameter.
    io::save_pytorch(loaded.at("parameter"), folder / "again.pt", parameters);
    std::vector<Tensor> found;
    EXPECT_TRUE(io::load(folder / "again.pt", {.parameters = &found}).to_tensor().requires_grad());
    EXPECT_EQ(found.size(), 1u);
  }
}

// The length in front of a safetensors header may begin like a pickle.
TEST(Load, tells_safetensors_from_pickles) {
  const TemporaryFolder folder;
  for (const size_t length : {size_t{128}, size_t{640}}) {
    std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    header.resize(length, ' ');
    std::string file;
    io::append_number(file, uint64_t{length});
    write_file(folder / "x", file + header + std::string(4, '\0'));
    EXPECT_EQ(io::load(folder / "x").at("x").to_tensor().item<float>(), 0);
  }
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

// Storages that have no memory yet are not one and the same.
TEST(PyTorch, results_of_an_open_scope) {
  const TemporaryFolder folder;
  const Tensor x = ones({4});
  {
    const LazyScope lazy;
    const Tensor sum = x + 1, product = x * 5;
    io::save(Value::List{sum, product, sum.slice(0, 1)}, folder / "x.pt");
  }
  const Value loaded = io::load(folder / "x.pt");
  EXPECT_EQ(values(loaded.at(0).to_tensor()), (Values{2, 2, 2, 2}));
  EXPECT_EQ(values(loaded.at(1).to_tensor()), (Values{5, 5, 5, 5}));
  EXPECT_EQ(values(loaded.at(2).to_tensor()), (Values{2, 2, 2}));
  EXPECT_TRUE(loaded.at(0).to_tensor().shares_storage(loaded.at(2).to_tensor()));
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

}  // namespace
}  // namespace tensora::testing
