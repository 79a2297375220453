"""__torch_function__, subclasses of Tensor, and the device of a scope."""
import threading

import pytest

import tensora
from tensora import nn, overrides


class Plain(tensora.Tensor):
    pass


class Logged(tensora.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Other:
    """No tensor, but takes part in functions."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, types, [type(a).__name__ for a in args], sorted(kwargs or {})


def test_results_of_a_subclass_have_its_class_and_its_graph():
    leaf = tensora.ones(2, requires_grad=True)
    x = leaf.as_subclass(Plain)
    results = [x + 1, 1 + x, tensora.ones(2) * x, -x, x[0], tensora.relu(x), x.relu(), tensora.stack([x, x]), x @ x, x == x]
    assert all(type(r) is Plain for r in results)
    assert all(type(part) is Plain for part in x.split(1))
    (x * 3).sum().backward()
    assert leaf.grad.tolist() == [3, 3]
    assert type(nn.Parameter(tensora.ones(2)) + 1) is tensora.Tensor and hash(x) == hash(x)
    with pytest.raises(TypeError, match="subclass"):
        leaf.as_subclass(int)


def test_functions_methods_operators_and_indices_are_overridden():
    x = tensora.ones(3).as_subclass(Logged)
    Logged.calls.clear()
    x.add(1), tensora.mul(x, 2), x - 1, 2 - x, tensora.cat([tensora.ones(1), x]), x[1:], tensora.ones(3)[x.long()]
    x[0] = 5
    assert {"add", "mul", "__sub__", "__rsub__", "cat", "__getitem__", "__setitem__"} <= set(Logged.calls)
    with overrides.DisableTorchFunctionSubclass():
        Logged.calls.clear()
        assert type(x + 1) is tensora.Tensor and not Logged.calls
    seen = []
    thread = threading.Thread(target=lambda: seen.append(type(x + 1)))
    thread.start()
    thread.join()
    assert seen == [Logged]


def test_objects_that_are_no_tensors():
    x = Other(1)
    assert tensora.add(tensora.ones(1), x) == ("add", (Other,), ["Tensor", "Other"], [])
    assert tensora.cat([x, x], dim=0)[0] == "cat" and tensora.ones(1).matmul(x)[0] == "matmul"
    assert tensora.zeros(x)[0] == "zeros" and nn.functional.linear(x, tensora.ones(2, 2))[0] == "linear"
    assert overrides.has_torch_function((x,)) and not overrides.has_torch_function((tensora.ones(1),))
    with pytest.raises(TypeError):
        tensora.add(tensora.ones(1), object())


def test_subclasses_come_before_their_bases():
    asked = []

    class First(tensora.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(cls.__name__)
            return NotImplemented

    class Second(First):
        pass
    with pytest.raises(TypeError, match="no implementation found for 'torch.add'"):
        tensora.add(tensora.ones(1).as_subclass(First), tensora.ones(1).as_subclass(Second))
    assert asked == ["Second", "First"]


def test_device_of_a_scope():
    with tensora.device("meta") as device:
        assert device.type == "meta" and tensora.get_default_device().type == "meta"
        made = [tensora.zeros(2), tensora.tensor([1.0]), tensora.randn(2), tensora.arange(3), tensora.full((2,), 1),
                nn.Linear(2, 2).weight, tensora.as_tensor([1, 2]), tensora.eye(2)]
        assert all(t.is_meta for t in made)
        here = tensora.ones(2, device="cpu")
        assert here.is_cpu and tensora.zeros_like(here).is_cpu and here.new_ones(2).is_cpu
        with tensora.device("cpu"):
            assert tensora.ones(1).is_cpu
        assert tensora.ones(1).is_meta
        other = []
        thread = threading.Thread(target=lambda: other.append(tensora.ones(1).is_cpu))
        thread.start()
        thread.join()
        assert other == [True]
    assert tensora.ones(1).is_cpu
    tensora.set_default_device("meta")
    try:
        assert tensora.ones(1).is_meta
    finally:
        tensora.set_default_device(None)
    assert tensora.ones(1).is_cpu
    with pytest.raises(TypeError):
        tensora.zeros(2, device=object())


def test_starting_values_of_a_generator(tmp_path):
    generator = tensora.Generator().manual_seed(3)
    before = tensora.get_rng_state()
    a, b = (nn.init.normal_(tensora.empty(4), generator=generator) for _ in range(2))
    assert tensora.equal(before, tensora.get_rng_state()) and not tensora.equal(a, b)
    generator.manual_seed(3)
    assert tensora.equal(nn.init.normal_(tensora.empty(4), generator=generator), a)
    # A mapped file as a storage, which safetensors reads through.
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    storage = tensora.UntypedStorage.from_file(str(path), shared=False, nbytes=16)
    part = tensora.asarray(storage[4:12], dtype=tensora.uint8)
    assert part.tolist() == list(range(4, 12)) and part.view(tensora.int32).shape == (2,) and len(storage) == 16
    part += 1
    assert path.read_bytes() == bytes(range(16))


def test_in_place_operators_and_iteration_ask_subclasses():
    class Named(tensora.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(getattr(func, "__name__", ""))
            return super().__torch_function__(func, types, args, kwargs)
    x, y = tensora.ones(2), tensora.ones(2).as_subclass(Named)
    before = x
    x += y
    assert Named.seen == ["add_"] and before.tolist() == [2, 2]
    assert all(type(part) is Named for part in y.as_subclass(Named))
    z = tensora.rand(2, 2).as_subclass(Named)
    for part in (z.detach(), z.T, z.mT, z.data, z.real, z.max(0).values, z.sort()[1], z.topk(1).indices):
        assert type(part) is Named
    y.index_put_((tensora.tensor([0]),), tensora.tensor(5.0))
    assert "index_put_" in Named.seen and y.tolist() == [5, 1]


def test_iteration_keeps_tangents():
    import tensora.autograd.forward_ad as forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(tensora.tensor([1.0, 2.0]), tensora.tensor([3.0, 4.0]))
        assert forward_ad.unpack_dual(sum(i * part for i, part in enumerate(x))).tangent.item() == 4


def test_storages_know_their_size():
    x = tensora.arange(6.0)[2:4]
    assert x.untyped_storage().nbytes() == 24 and len(x.untyped_storage()) == 24
    assert x.storage().size() == len(x.storage()) == 6 and x.storage()[1] == 1 and x.storage().tolist() == [0, 1, 2, 3, 4, 5]
    assert x.new().shape == (0,) and x.new(2, 3).shape == (2, 3) and x.new(tensora.Size([2, 2])).shape == (2, 2)
    assert x.storage().data_ptr() == x.data_ptr() - 8 and tensora.empty(0).untyped_storage().nbytes() == 0
