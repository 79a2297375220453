"""save and load: parameters, sharing, old formats, files that describe more than they hold."""
import io
import os
import pathlib

import pytest

import tensora as torch
from tensora import _torch_pickles, nn

GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "io/goldens"


def test_a_parameter_comes_back_as_one(tmp_path):
    frozen = nn.Parameter(torch.zeros(1), requires_grad=False)
    given = {"p": nn.Parameter(torch.arange(3.)), "frozen": frozen, "t": torch.ones(2), "same": [frozen, frozen],
             "leaf": torch.ones(1, requires_grad=True)}
    torch.save(given, tmp_path / "x.pt")
    back = torch.load(tmp_path / "x.pt")
    assert type(back["p"]) is nn.Parameter and back["p"].requires_grad and back["p"].tolist() == [0, 1, 2]
    assert type(back["frozen"]) is nn.Parameter and not back["frozen"].requires_grad
    assert back["same"][0] is back["same"][1] is back["frozen"]
    assert type(back["t"]) is torch.Tensor and not back["t"].requires_grad
    assert type(back["leaf"]) is torch.Tensor and back["leaf"].requires_grad and back["leaf"].is_leaf
    model = nn.Linear(2, 2)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    assert all(type(t) is torch.Tensor for t in torch.load(tmp_path / "state.pt").values())


@pytest.mark.parametrize("name", ["everything.pt", "legacy2.pt", "legacy4.pt"])
def test_files_of_pytorch(name):
    back = torch.load(GOLDENS / name)
    assert type(back["parameter"]) is nn.Parameter
    assert back["tied"][0] is back["tied"][1]
    back["views"]["base"].fill_(5)
    assert back["views"]["part"].tolist() == [5, 5, 5]
    assert back["model"]["1.num_batches_tracked"].item() == 0
    assert (GOLDENS / name).read_bytes()  # writing to the tensors left the file alone
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model.load_state_dict(back["model"])
    assert torch.load(GOLDENS / name)["views"]["base"][0] == 0


def test_repeated_numbers_take_no_memory(tmp_path):
    torch.save({"x": torch.ones(1).expand(1 << 40)}, tmp_path / "x.pt")
    for mmap in (None, True):
        x = torch.load(tmp_path / "x.pt", mmap=mmap)["x"]
        assert x.shape == (1 << 40,) and x.stride() == (0,) and x[12345] == 1


def test_a_loaded_file_may_change(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"x": torch.arange(100000)}, path)
    x = torch.load(path)["x"]
    os.truncate(path, 0)
    assert x.sum() == 100000 * 99999 // 2


def test_sharing_survives(tmp_path):
    base = torch.arange(6.)
    torch.save([base, base[1:4], base.view(2, 3).t()], tmp_path / "x.pt")
    a, b, c = torch.load(tmp_path / "x.pt")
    a[1] = 9
    assert b[0] == 9 and c[1, 0] == 9 and c.stride() == (1, 3)


def test_bare_pickles_are_refused(tmp_path):
    import pickle
    (tmp_path / "x.pt").write_bytes(pickle.dumps({"x": 1}, protocol=2))
    with pytest.raises(RuntimeError, match="bare pickle"):
        torch.load(tmp_path / "x.pt")


def test_bytes_of_a_damaged_file_in_a_message(tmp_path):
    damaged = (GOLDENS / "legacy2.pt").read_bytes().replace(b"OrderedDict", b"Ordered\xffDict")
    (tmp_path / "x.pt").write_bytes(damaged)
    with pytest.raises(RuntimeError, match=r"'collections.Ordered\\xffDict', which is refused"):
        torch.load(tmp_path / "x.pt")


def test_a_state_dict_of_before_2018():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    net(torch.ones(4, 2))
    old = {k: v for k, v in net.state_dict().items() if "num_batches" not in k}
    assert not net.load_state_dict(old).missing_keys
    assert net[1].num_batches_tracked == 1
    versioned = net.state_dict()
    del versioned["1.num_batches_tracked"]  # whose _metadata says that it should be there
    with pytest.raises(RuntimeError, match="Missing key"):
        net.load_state_dict(versioned)


def test_empty_batches_in_training():
    for norm, shapes in [(nn.BatchNorm1d(3), [(0, 3), (0, 3, 5), (2, 3, 0)]), (nn.BatchNorm2d(3), [(0, 3, 4, 4)]),
                         (nn.BatchNorm3d(3, momentum=None), [(0, 3, 2, 2, 2)])]:
        for shape in shapes:
            x = torch.zeros(shape, requires_grad=True)
            y = norm(x)
            y.sum().backward()
            assert y.shape == shape and x.grad.shape == shape
        assert norm.running_mean.tolist() == [0, 0, 0] and norm.running_var.tolist() == [1, 1, 1]
        assert norm.num_batches_tracked == len(shapes)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(3)(torch.ones(1, 3))


def test_states_of_optimizers_are_checked():
    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.NAdam([w])
    w.grad = torch.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    state["state"][0]["mu_product"] = torch.empty(0)
    with pytest.raises(RuntimeError, match="'mu_product' must be one number"):
        torch.optim.NAdam([w]).load_state_dict(state)
    other = torch.optim.NAdam([w])
    other.state[w] = state["state"][0]
    with pytest.raises(RuntimeError, match="must be one number"):
        other.step()


def pytorch_archive(path, obj):
    """Writes an archive as torch.save does, with names of torch's modules."""
    import io
    import pickle
    import sys
    import types
    import zipfile
    names = {"torch": types.ModuleType("torch"), "torch._utils": types.ModuleType("torch._utils"),
             "torch.nn": types.ModuleType("torch.nn"), "torch.nn.modules": types.ModuleType("torch.nn.modules"),
             "torch.nn.modules.linear": types.ModuleType("torch.nn.modules.linear")}
    for name, module in (("FloatStorage", "torch"), ("Linear", "torch.nn.modules.linear")):
        kind = type(name, (), {"__module__": module})
        setattr(names[module], name, kind)

    def _rebuild_tensor_v2(*args):
        raise AssertionError

    def _rebuild_parameter(*args):
        raise AssertionError
    for function in (_rebuild_tensor_v2, _rebuild_parameter):
        function.__module__, function.__qualname__ = "torch._utils", function.__name__
        setattr(names["torch._utils"], function.__name__, function)
    storages = []

    class Storage:
        def __init__(self, array):
            self.array = array

    class Saved:
        def __init__(self, array, parameter=False):
            self.array, self.parameter = array, parameter

        def __reduce__(self):
            tensor = (_rebuild_tensor_v2, (Storage(self.array), 0, self.array.shape, tuple(
                s // 4 for s in self.array.strides), False, {}))
            if not self.parameter:
                return tensor
            return _rebuild_parameter, (Saved(self.array), True, {})

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            if isinstance(value, Storage):
                storages.append(value.array)
                return "storage", names["torch"].FloatStorage, str(len(storages) - 1), "cpu", value.array.size
            return None
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        text = io.BytesIO()
        Pickler(text, 2).dump(obj(Saved, names["torch.nn.modules.linear"].Linear))
    finally:
        for name, module in before.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        for i, array in enumerate(storages):
            archive.writestr(f"archive/data/{i}", array.tobytes())


def test_pytorch_files_with_objects(tmp_path):
    import numpy
    path = str(tmp_path / "x.pt")
    numbers = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)

    def content(saved, linear):
        layer = linear.__new__(linear)
        layer.__dict__.update(training=False, _parameters={"weight": saved(numbers, True), "bias": None}, _buffers={}, _modules={},
                              in_features=3, out_features=2)
        return {"state": numpy.random.RandomState(0).get_state()[1], "x": saved(numbers), "layer": layer}
    pytorch_archive(path, content)
    with pytest.raises(RuntimeError):
        torch.load(path)
    loaded = torch.load(path, weights_only=False)
    assert isinstance(loaded["state"], numpy.ndarray) and loaded["x"].tolist() == numbers.tolist()
    layer = loaded["layer"]
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter) and not layer.training
    assert layer(torch.ones(1, 3)).tolist() == [[3, 12]]


class Settings:
    """What a program keeps beside its weights."""

    def __init__(self, rate):
        self.rate = rate


def test_files_of_pytorch_with_classes_declared_safe(tmp_path):
    import numpy
    import pickle
    path, name = str(tmp_path / "x.pt"), f"{Settings.__module__}.Settings"
    pytorch_archive(path, lambda saved, linear: {"settings": Settings(3), "x": saved(numpy.ones(2, numpy.float32))})
    with pytest.raises(pickle.UnpicklingError, match="Settings"):
        torch.load(path)
    assert torch.serialization.get_unsafe_globals_in_checkpoint(path) == [name]
    for safe in (Settings, (Settings, name)):
        with torch.serialization.safe_globals([safe]):
            loaded = torch.load(path)
            assert type(loaded["settings"]) is Settings and loaded["settings"].rate == 3 and loaded["x"].tolist() == [1, 1]
            assert torch.serialization.get_unsafe_globals_in_checkpoint(path) == []
    with pytest.raises(RuntimeError), torch.serialization.safe_globals([(dict, name + "s")]):
        torch.load(path)


@pytest.mark.parametrize("name", ["ASGD", "Rprop"])
def test_states_of_optimizers_written_in_python_are_checked(name):
    def trained():
        w = nn.Parameter(torch.ones(2, 3))
        optimizer = getattr(torch.optim, name)([w])
        w.grad = torch.ones(2, 3)
        optimizer.step()
        return w, optimizer
    w, optimizer = trained()
    tensors = {"ASGD": ["ax"], "Rprop": ["prev", "step_size"]}[name]
    numbers = {"ASGD": ["step", "eta", "mu"], "Rprop": ["step"]}[name]
    wrong = [("state", 3), ("state", {0: 3}), ("state", {7: {}}), ("state", {0: {"other": 1}})]
    wrong += [((key), value) for key in tensors
              for value in (torch.ones(3), torch.ones(2, 3, dtype=torch.int64), "text", None, 1.0)]
    wrong += [(key, value) for key in numbers
              for value in (torch.ones(2), "text", None, 1j, float("nan"), torch.empty(0))] + [("step", -1)]
    option, values = {"ASGD": ("alpha", ["text", 1j, torch.ones(2), None, 2 ** 70]),
                      "Rprop": ("etas", ["text", 0.5, (0.5,), (0.5, "x"), None])}[name]
    wrong += [(option, value) for value in values]
    for key, value in wrong:
        state = optimizer.state_dict()
        if key == "state":
            state["state"] = value
        elif key == option:
            state["param_groups"][0][key] = value
        else:
            state["state"] = {0: {**state["state"][0], key: value}}
        v, other = trained()
        before = repr(other.state_dict())
        with pytest.raises((ValueError, TypeError), match="load_state_dict"):
            other.load_state_dict(state)
        assert repr(other.state_dict()) == before, (key, value)
        other.step()
    # PyTorch keeps the numbers as tensors, and may number parameters otherwise.
    state = optimizer.state_dict()
    kept = {key: torch.tensor(float(value)) if key in numbers else value for key, value in state["state"][0].items()}
    v, other = trained()
    other.load_state_dict({"state": {5: kept}, "param_groups": [{**state["param_groups"][0], "params": [5]}]})
    v.data = w.data.clone()
    for parameter, stepped in ((w, optimizer), (v, other)):
        parameter.grad = torch.ones(2, 3)
        stepped.step()
    assert v.equal(w) and state["state"][0]["step"] == 2  # the states of `optimizer` itself went on
    assert kept["step"].item() == 1


@pytest.mark.parametrize("name", ["Adam", "NAdam", "RAdam", "AdamW"])
def test_counts_of_steps_are_checked(name):
    w = nn.Parameter(torch.ones(2))
    optimizer = getattr(torch.optim, name)([w])
    w.grad = torch.ones(2)
    optimizer.step()
    for count in (1e300, -1, float("nan"), torch.tensor(float("inf"))):
        state = optimizer.state_dict()
        state["state"][0]["step"] = count
        with pytest.raises(RuntimeError, match="'step' must be from 0 to 2"):
            getattr(torch.optim, name)([w]).load_state_dict(state)


def test_state_dicts_of_modules_are_checked():
    for module in (nn.Linear(3, 2), nn.LazyLinear(2), nn.LazyBatchNorm1d()):
        state = {k: torch.ones(2, 3) if k == "weight" else v for k, v in module.state_dict().items()}
        for key in (None, 3, (1,)):
            with pytest.raises(TypeError, match="names of parameters as keys"):
                module.load_state_dict({**state, key: 1})
        for value in ("text", None, object(), b"x", {}, torch.ones(3), torch.ones(1, 2, 3)):
            if type(module) is nn.LazyBatchNorm1d and isinstance(value, torch.Tensor) and value.dim() == 1:
                continue
            with pytest.raises(RuntimeError, match="Error.s. in loading state_dict"):
                module.load_state_dict({**state, "weight": value})
            module.load_state_dict({**module.state_dict()})
    lazy = nn.LazyLinear(2)
    lazy.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
    assert lazy(torch.ones(3)).tolist() == [3, 3] and type(lazy) is nn.Linear


def test_containers_keep_their_types(tmp_path):
    import collections
    x = torch.arange(6.0)
    value = {"state": torch.nn.Linear(3, 2).state_dict(), "pair": (1, 2.5, (x, x[2:4])), "set": {1, 2}, "complex": 1 + 2j,
             "bytes": b"\x00\xff", "size": torch.Size([1, 2]), "dtype": torch.bfloat16, "device": torch.device("cpu"),
             "large": 2 ** 70, "count": collections.Counter("aab"), (1, 2): None, "empty": torch.zeros(0, 3), "t": x.view(2, 3).t(),
             "parameter": torch.nn.Parameter(torch.ones(2), False), "leaf": torch.ones(1, requires_grad=True)}
    for place in (tmp_path / "x.pt", io.BytesIO()):
        torch.save(value, place)
        if isinstance(place, io.BytesIO):
            place.seek(0)
        again = torch.load(place)
        assert list(again) == list(value)
        for name, item in value.items():
            assert type(again[name]) is type(item), name
            if name in ("set", "complex", "bytes", "size", "dtype", "device", "large", "count"):
                assert again[name] == item
        assert again["state"]._metadata == value["state"]._metadata and again["t"].stride() == (1, 3)
        assert not again["parameter"].requires_grad and again["leaf"].requires_grad
        again["pair"][2][1][0] = 50
        assert again["pair"][2][0].tolist() == [0, 1, 50, 3, 4, 5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.pt"]


def test_containers_of_a_file_are_made_without_running_it(tmp_path):
    import collections
    import zipfile
    torch.save([1, (2, torch.ones(2))], tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        text = archive.read("x/data.pkl")
    for name, wrong in (("call", text.replace(b"torch._utils", b"os.path.abc_", 1)), ("cut", text[:-4]),
                        ("size", b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
                                 b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x00tQK\x00\x8a\x05\x00\x00\x00\x00\x10\x85K\x01\x85\x89NtR.")):
        with zipfile.ZipFile(tmp_path / f"{name}.pt", "w") as archive:
            archive.writestr("x/data.pkl", wrong)
            archive.writestr("x/data/0", bytes(8))
            archive.writestr("x/version", "3")
        with pytest.raises(RuntimeError, match="load|pickle|file"):
            torch.load(tmp_path / f"{name}.pt")
    torch.save(collections.OrderedDict(a=[(1,), {"b": (2,)}]), tmp_path / "y.pt")
    assert torch.load(tmp_path / "y.pt") == collections.OrderedDict(a=[(1,), {"b": (2,)}])


# ---- files of strangers ----------------------------------------------------------------------------

PREFIX = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
PREFIX += b"X\x03\x00\x00\x00cpuK\x04tQ"


def archive_of(path, text, storages=((0, bytes(16)),)):
    import zipfile
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", text)
        for key, content in storages:
            archive.writestr(f"x/data/{key}", content)
        archive.writestr("x/version", "3")
    return path


def numbers(*values):
    return b"(" + b"".join(b"\x8a\x09" + value.to_bytes(9, "little", signed=True) for value in values) + b"t"


def test_views_beyond_their_storage_are_refused(tmp_path):
    # Sums and products that overflow int64; C++ reads the first file, and leaves the second, with a set in it, to Python.
    most = (1 << 63) - 1
    for offset, sizes, strides in ((0, (5,), (1 << 62,)), (1 << 61, (1,), (1,)), (1 << 62, (1,), (1,)), (most, (1,), (1,)),
                                   (0, (2, 2), (1 << 62, 1 << 62)), (0, (5,), (1,)), (-1, (1,), (1,)), (4, (1,), (1,)),
                                   (0, (2,), (-1,))):
        view = PREFIX + numbers(offset)[1:-1] + numbers(*sizes) + numbers(*strides) + b"\x89NtR"
        for text in (view + b".", b"\x80\x04" + view[2:] + b"\x8f\x86."):
            with pytest.raises(RuntimeError):
                torch.load(archive_of(tmp_path / "x.pt", text))
    view = PREFIX + numbers(1)[1:-1] + numbers(3) + numbers(1) + b"\x89NtR\x8f\x86."
    assert torch.load(archive_of(tmp_path / "x.pt", b"\x80\x04" + view[2:]))[0].tolist() == [0, 0, 0]
    memory = torch._C._share(bytearray(16))
    for sizes, strides, offset in (([5], [1 << 62], 0), ([1], [1], 1 << 61), ([1], [1], (1 << 63) - 1), ([2, 2], [1 << 62, 1 << 62], 0),
                                   ([5], [1], 0), ([1], [1], 4), ([1], [1], -1), ([2], [-1], 0), ([1 << 40, 1 << 40], [1 << 40, 1], 0)):
        with pytest.raises(RuntimeError):
            torch._C._on_storage(memory, torch.float32, sizes, strides, offset)
    assert torch._C._on_storage(memory, torch.float32, [2, 2], [2, 1], 0).tolist() == [[0, 0], [0, 0]]
    assert torch._C._on_storage(memory, torch.float32, [0, 2], [2, 1], 9).shape == (0, 2)


def test_small_pickles_make_no_large_objects(tmp_path):
    import pickle
    limit = "TENSORA_UNPACK_LIMIT|remembers object"
    sets = b"\x80\x04(" + b"\x8f" * 4_000_000 + b"t."
    memo = b"\x80\x02}r\x00\x00\x00\x30."  # a memo of 12 GiB
    for text in (sets, memo):
        with pytest.raises((RuntimeError, pickle.UnpicklingError), match=limit):
            _torch_pickles.load(archive_of(tmp_path / "x.pt", text), True)
        (tmp_path / "y.pt").write_bytes(b"tensora pickle\n" + text)
        with pytest.raises((RuntimeError, pickle.UnpicklingError), match=limit):
            torch.load(tmp_path / "y.pt")
    assert torch.load(archive_of(tmp_path / "x.pt", memo)) == {}
    for text in (b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"x.", b"\x80\x04K", b"", b"\xff"):
        (tmp_path / "y.pt").write_bytes(b"tensora pickle\n" + text)
        with pytest.raises(pickle.UnpicklingError, match="damaged"):
            torch.load(tmp_path / "y.pt")
    (tmp_path / "y.pt").write_bytes(b"tensora pickle\n\x80\x04\x95" + (1 << 46).to_bytes(8, "little") + b"N.")  # a frame
    with pytest.raises(pickle.UnpicklingError, match="exhausted|truncated"):
        torch.load(tmp_path / "y.pt")
    number = b"\x8a\x08" + (1 << 40).to_bytes(8, "little")
    for name in (b"cbuiltins\nbytearray\n", b"ctensora._tensor\n_restored\n"):
        (tmp_path / "y.pt").write_bytes(b"tensora pickle\n\x80\x02" + name + number + b"\x85R.")
        with pytest.raises((pickle.UnpicklingError, TypeError), match="int"):
            torch.load(tmp_path / "y.pt")
    torch.save({"x": bytearray(b"abc"), "y": nn.Linear(1, 1)}, tmp_path / "y.pt")
    torch.serialization.add_safe_globals([nn.Linear])
    try:
        assert torch.load(tmp_path / "y.pt")["x"] == bytearray(b"abc")
    finally:
        torch.serialization.clear_safe_globals()


def test_tensors_are_of_classes_of_tensors():
    memory = torch._C._share(bytearray(16))
    for cls in (dict, nn.Linear, object, 3, None):
        with pytest.raises(TypeError, match="class of tensors"):
            torch._tensor._rebuild_view(cls, memory, torch.float32, (2,), (1,), 0, False, {})
        with pytest.raises(TypeError):
            torch.Tensor._make_subclass(cls, torch.ones(2))


def test_overlapping_parts_are_refused(tmp_path):
    """Entries that share their bytes: each holds all that follow, so a small file asks for far more."""
    import pickle
    import struct
    import zlib
    names = [f"x/data/{i}".encode() for i in range(60)]
    body, central, offsets = bytes(100_000), b"", {}
    content = body
    parts = []
    for name in reversed(names):
        header = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 0, 0, 0x21, zlib.crc32(content), len(content), len(content), len(name), 0) + name
        parts.append((name, zlib.crc32(content), len(content), len(content) + len(header)))
        content = header + content
    text = b"\x80\x04\x8f."
    name = b"x/data.pkl"
    header = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 0, 0, 0x21, zlib.crc32(text), len(text), len(text), len(name), 0) + name
    content += header + text
    total = len(content)
    end = len(header) + len(text)
    rows = [(n, crc, size, total - end - behind) for n, crc, size, behind in parts] + [(name, zlib.crc32(text), len(text), total - end)]
    for n, crc, size, offset in rows:
        central += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 0, 0, 0x21, crc, size, size, len(n), 0, 0, 0, 0, 0, offset) + n
    content += central + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, len(rows), len(rows), len(central), total, 0)
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(pickle.UnpicklingError, match="overlap"):
        _torch_pickles.load(tmp_path / "x.pt", True)
    with pytest.raises(RuntimeError, match="overlap"):
        torch.load(tmp_path / "x.pt")


def test_arguments_of_load(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"x": torch.ones(2)}, path)
    seen = []
    for place in (lambda storage, where: storage, lambda storage, where: seen.append(where), lambda storage, where: storage.cpu(),
                  {}, {"cuda:0": "cpu"}, torch.device("cpu"), None):
        assert torch.load(path, map_location=place)["x"].device.type == "cpu"
    assert seen == ["cpu"] and torch.load(path, map_location=lambda s, where: s.to("meta"))["x"].is_meta
    torch.load(path, encoding="latin1")
    for wrong in (dict(map_location=3.5), dict(map_location=lambda s, where: 1), dict(weights_onyl=False)):
        with pytest.raises(TypeError):
            torch.load(path, **wrong)
