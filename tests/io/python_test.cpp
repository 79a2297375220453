// What is written here is read by PyTorch and NumPy themselves, where they are installed.

#include <cstdlib>

#include "files.h"

namespace tensora::testing {
namespace {

constexpr const char* kScript = R"(
import sys, warnings
warnings.simplefilter("ignore")
import numpy, torch
folder = sys.argv[1]
for options in ({}, {"mmap": True}):
    value = torch.load(folder + "/x.pt", weights_only=True, **options)
    assert value["numbers"] == [0, 255, 256, -1, 2**63 - 1, -2**63, 0.1, True, None, "größe"], value["numbers"]
    assert value["empty"] == [{}, []] and value[3] == 4
    for name, (plain, transposed, number, empty) in value["dtypes"].items():
        expected = torch.arange(6).view(2, 3).to(getattr(torch, name))
        for got, want in ((plain, expected), (transposed, expected.t())):
            assert got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride(), name
            assert torch.equal(got.to(torch.complex128), want.to(torch.complex128)), name
        assert number.shape == () and empty.shape == (0, 2), name
    base, part = value["base"], value["part"]
    assert part.tolist() == [2, 5]
    assert base.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()
    assert base is value["again"] and value["leaf"].requires_grad
for name in ("/x.npz", "/compressed.npz"):
    with numpy.load(folder + name) as arrays:
        for key in arrays.files:
            expected = numpy.arange(6).reshape(2, 3).astype(key)
            assert arrays[key].dtype == expected.dtype and (arrays[key] == expected).all(), key
assert (numpy.load(folder + "/x.npy", mmap_mode="r") == [[0, 2], [1, 3]]).all()
)";

TEST(Python, reads_what_is_written) {
  if (std::system("python3 -c 'import torch, numpy' >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "python3 has no PyTorch and NumPy";
  const TemporaryFolder folder;
  Value value = Value::dict();
  value["numbers"] =
      Value::List{0, 255, 256, -1, INT64_MAX, INT64_MIN, 0.1, true, Value(), "größe"};
  value["empty"] = Value::List{Value::dict(), Value::list()};
  value[Value::Key(int64_t{3})] = 4;
  StateDict arrays;
  for (DType dtype : element_dtypes()) {
    const std::string key(name(dtype));
    const Tensor tensor = counting({2, 3}, dtype);
    value["dtypes"][key] =
        Value::List{tensor, tensor.t(), ones({}, dtype), counting({0, 2}, dtype)};
    if (dtype != kBFloat16 && dtype != kFloat8E4M3 && dtype != kFloat8E5M2)
      arrays.insert(key, tensor);
  }
  const Tensor base = arange(10.0);
  value["base"] = base;
  value["part"] = base.slice(0, 2, 8, 3);
  value["again"] = base;
  value["leaf"] = ones({2}).requires_grad_();
  io::save(value, folder / "x.pt");
  io::save_npz(arrays, folder / "x.npz");
  io::save_npz(arrays, folder / "compressed.npz", {.compressed = true});
  io::save(counting({2, 2}, kFloat32).t(), folder / "x.npy");
  write_file(folder / "check.py", kScript);
  const std::string command = concat("python3 '", folder / "check.py", "' '", folder.path(), "'");
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace tensora::testing
