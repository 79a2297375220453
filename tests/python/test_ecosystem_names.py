"""What libraries written for PyTorch take from it beside its documented functions."""
import math
import os
import subprocess
import sys
import threading

import numpy
import pytest

import tensora
from tensora import nn
from tensora.autograd import Variable
from tensora.nn import flex_attention as flex


def test_lists_of_tensors():
    a, b = [tensora.ones(2), tensora.full((3,), 2.0)], [tensora.full((2,), 3.0), tensora.zeros(3)]
    assert [x.tolist() for x in tensora._foreach_add(a, b, alpha=2)] == [[7, 7], [2, 2, 2]]
    assert tensora._foreach_mul_(a, 2) is None and a[1].tolist() == [4, 4, 4]
    assert tensora._foreach_maximum_(a, [2.5, 5.0] and b) is None and a[0].tolist() == [3, 3]
    tensora._foreach_addcdiv_(a, b, a, [0.5, 1.0])
    assert a[0].tolist() == [3.5, 3.5] and a[1].tolist() == [4, 4, 4]
    tensora._foreach_copy_(a, b)
    assert a[0].equal(b[0]) and [x.item() for x in tensora._foreach_norm(b)] == [pytest.approx(math.sqrt(18)), 0]
    assert [x.tolist() for x in tensora._foreach_sqrt([tensora.full((1,), 4.0)])] == [[2]]
    with pytest.raises(RuntimeError, match="lists of one length, got 2 and 1"):
        tensora._foreach_add(a, b[:1])
    with pytest.raises(AttributeError, match="_foreach_nothing"):
        tensora._foreach_nothing


def test_the_older_order_of_a_factor():
    x, y, z = tensora.ones(2), tensora.full((2,), 2.0), tensora.full((2,), 4.0)
    assert x.add(0.5, y).tolist() == [2, 2] and tensora.sub(x, 0.5, y).tolist() == [0, 0]
    assert x.add(tensora.tensor(0.5), y).tolist() == [2, 2]
    assert x.addcmul_(0.5, y, z).tolist() == [5, 5] and x.addcdiv(2, y, z).tolist() == [6, 6]
    for wrong in ((y, 0.5, y), (0.5, y, z)):
        with pytest.raises(TypeError, match="add_"):
            x.add_(*wrong)


def test_gradients_that_keep_their_graph_have_the_parameters_layout():
    layer = nn.Linear(4, 8)
    layer(tensora.randn(32, 4)).tanh().square().sum().backward(create_graph=True)
    grad = layer.weight.grad
    assert grad.stride() == layer.weight.stride() and grad.requires_grad
    assert tensora.autograd.grad(grad.square().sum(), layer.weight)[0].abs().sum() > 0


def test_variable():
    plain = tensora.ones(2)
    x = Variable(plain, requires_grad=True)
    assert x.requires_grad and not plain.requires_grad and isinstance(x, Variable) and issubclass(tensora.Tensor, Variable)
    x.data[0] = 5
    assert plain.tolist() == [5, 1] and not Variable(x).requires_grad and Variable().numel() == 0


def test_numpy_numbers_and_tensors_with_gradients():
    x = tensora.tensor([1.0, 2.0], requires_grad=True)
    (numpy.float64(3) * x + numpy.array([1.0, 2.0], dtype="float32") * x - numpy.float32(1) / x).sum().backward()
    assert x.grad.tolist() == [5, 5.25] and (numpy.float64(3) * x).dtype is tensora.float32
    with pytest.raises(RuntimeError, match="numpy.exp has no gradient"):
        numpy.exp(x)


def test_futures():
    future, seen = tensora.futures.Future(), []
    future.add_done_callback(lambda done: seen.append(done.value()))
    both = tensora.futures.collect_all([future, future.then(lambda done: done.value() * 2)])
    assert not both.done() and tensora.futures.Future[int] is tensora.futures.Future
    thread = threading.Thread(target=future.set_result, args=(3,))
    thread.start()
    assert future.wait() == 3 and [f.wait() for f in both.wait()] == [3, 6]
    thread.join()
    assert seen == [3] and tensora.futures.collect_all([]).wait() == []
    with pytest.raises(RuntimeError, match="once"):
        future.set_result(4)
    failed = tensora.futures.Future()
    after = failed.then(lambda done: done.value())
    failed.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        after.wait()
    with pytest.raises(AssertionError, match="not an Exception"):
        tensora.futures.Future().set_exception("no")


def attention(q, k, v, mask, bias=0.0):
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v


def test_flex_attention():
    q, k, v = (tensora.randn(2, 4, 10, 8, requires_grad=True) for _ in range(3))
    positions = tensora.arange(10)
    causal = positions[:, None] >= positions

    def keeps(b, h, q_idx, kv_idx):
        return q_idx >= kv_idx
    mask = flex.create_block_mask(keeps, None, None, 10, 10, BLOCK_SIZE=4)
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]] and mask.shape == (1, 1, 10, 10)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]] and mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert flex.create_mask(keeps, 1, 1, 10, 10)[0, 0].equal(causal)
    slopes = tensora.tensor([0.5, 0.25, 0.125, 0.0])

    def alibi(score, b, h, q_idx, kv_idx):
        return score + slopes[h] * (kv_idx - q_idx)
    out, lse = flex.flex_attention(q, k, v, score_mod=alibi, block_mask=mask, return_lse=True)
    bias = slopes.view(4, 1, 1) * (positions - positions[:, None])
    wanted = attention(q, k, v, causal, bias)
    tensora.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)
    assert lse.shape == (2, 4, 10)
    grads = [tensora.autograd.grad(x.square().sum(), (q, k, v)) for x in (out, wanted)]
    for ours, theirs in zip(*grads):
        tensora.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_parts_of_block_masks_and_heads_that_share_keys():
    q, k, v = tensora.randn(1, 4, 1, 8), tensora.randn(1, 2, 8, 8), tensora.randn(1, 2, 8, 8)
    mask = flex.create_block_mask(flex.and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 6), 1, 1, 8, 8, BLOCK_SIZE=2)
    row = mask[:, :, 3]
    row.mask_mod = lambda b, h, i, j: mask.mask_mod(b, h, i + 7, j)
    wide = [x.repeat_interleave(2, 1) for x in (k, v)]
    wanted = attention(q, *wide, tensora.arange(8) >= 2)
    tensora.testing.assert_close(flex.flex_attention(q, k, v, block_mask=row, enable_gqa=True), wanted, rtol=1e-5, atol=1e-5)
    either = flex.or_masks(lambda b, h, i, j: i > j, lambda b, h, i, j: i < j)
    assert flex.create_mask(either, 1, 1, 2, 2)[0, 0].tolist() == [[False, True], [True, False]]
    nothing = flex.create_block_mask(lambda b, h, i, j: i > j, 1, 1, 1, 8)
    assert flex.flex_attention(q, k, v, block_mask=nothing, enable_gqa=True).abs().sum() == 0  # rows that see nothing
    again = flex.BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices,
                                          BLOCK_SIZE=2, mask_mod=mask.mask_mod)
    assert again.to_dense().equal(mask.to_dense()) and 0 < again.sparsity() < 100
    for wrong, message in ((dict(), "enable_gqa=True"), (dict(enable_gqa=True, block_mask=mask[:, :, 3]), "has no mask_mod"),
                           (dict(enable_gqa=True, return_aux=True), "return_aux")):
        with pytest.raises((ValueError, NotImplementedError), match=message):
            flex.flex_attention(q, k, v, **wrong)
    with pytest.raises(ValueError, match="covers 4 blocks of keys"):
        flex.flex_attention(q, *(tensora.randn(1, 4, 20, 8),) * 2, block_mask=mask)


def test_states_of_devices_and_small_helpers():
    from tensora.nn.parameter import UninitializedBuffer, is_lazy
    from tensora.optim.optimizer import ParamsT, required
    from tensora.utils.checkpoint import get_device_states, set_device_states
    assert get_device_states(tensora.ones(2), 3) == ([], []) and set_device_states([], []) is None
    with pytest.raises(ValueError, match="device_type"):
        set_device_states([], [], device_type="xpu")
    assert is_lazy(nn.parameter.UninitializedParameter()) and not is_lazy(nn.Linear(2, 2).weight) and is_lazy(UninitializedBuffer())
    assert "required" in repr(required) and ParamsT and tensora.detach(tensora.ones(1, requires_grad=True)).requires_grad is False
    layer = nn.utils.skip_init(nn.Linear, 3, 4)
    assert layer.weight.shape == (4, 3) and layer.weight.device.type == "cpu"
    from tensora.nn.modules.conv import _ConvNd
    from tensora.nn.modules.utils import _reverse_repeat_tuple
    assert _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1) and isinstance(nn.Conv1d(1, 1, 1), _ConvNd)
    from tensora.nn.common_types import _ratio_any_t, _size_2_t
    assert str(_size_2_t) == "int | tuple[int, int]" and _ratio_any_t


def test_scripted_modules():
    scripted = tensora.jit.script(nn.Linear(2, 2))
    assert isinstance(scripted, tensora.jit.ScriptModule) and isinstance(scripted, nn.Linear)
    assert not isinstance(nn.Linear(2, 2), tensora.jit.ScriptModule) and tensora.jit.trace(len) is len
    with pytest.raises(NotImplementedError, match="fx.symbolic_trace"):
        tensora.jit._get_trace_graph(scripted, ())


PROGRAM = """
import torch
from torch._C._functorch import is_batchedtensor
from torch.distributed import nn as collectives, rpc
from torch.nn.attention.flex_attention import BlockMask, _mask_mod_signature, flex_attention
from torch.nn.common_types import _size_2_t
from torch.nn.utils.convert_parameters import parameters_to_vector
from torch.optim.adam import Adam
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
from torch.utils.data._utils.collate import default_collate
import torch.distributions.utils, torch.quasirandom
assert torch.Future is torch.futures.Future and not isinstance(3, torch.Stream)
assert Adam is torch.optim.Adam and parameters_to_vector is torch.nn.utils.parameters_to_vector
assert default_collate is torch.utils.data.default_collate and torch.__name__ == "torch"
torch._functorch.config.donated_buffer = False
seen = []
torch.vmap(lambda x: seen.append(is_batchedtensor(x)) or x)(torch.ones(2))
assert seen[0] and not is_batchedtensor(torch.ones(2))
groups = _group_tensors_by_device_and_dtype([[torch.ones(1), torch.ones(2).double(), torch.ones(3)], [1, 2, 3]], True)
assert [(lists[1], places) for lists, places in groups.values()] == [([1, 3], [0, 2]), ([2], [1])]
aten = torch.ops.aten
x = torch.arange(6.).reshape(2, 3)
assert aten._to_copy.default(x, dtype=torch.int64).dtype is torch.int64 and aten.slice(x, 1, 1).tolist() == [[1, 2], [4, 5]]
assert aten.index(x, [None, torch.tensor([0, 2])]).tolist() == [[0, 2], [3, 5]] and aten.alias(x).data_ptr() == x.data_ptr()
assert not isinstance(3, torch.SymInt) and x.dtype != torch.complex32
torch._check(True), torch._assert(x.sum() > 0, "positive")
for wrong, kind in ((lambda: torch._check(False, lambda: "said"), RuntimeError), (lambda: torch._assert(False, ""), AssertionError),
                    (lambda: aten._no_such_op(x), NotImplementedError), (lambda: collectives.all_reduce(x), NotImplementedError),
                    (lambda: rpc.init_rpc("a"), NotImplementedError),
                    (lambda: torch.quasirandom.SobolEngine(2), NotImplementedError)):
    try:
        wrong()
    except kind:
        pass
    else:
        raise SystemExit("not refused")
@rpc.api._require_initialized
def remote():
    return 1
try:
    remote()
except NotImplementedError as error:
    assert "_require_initialized" in str(error) and remote.__name__ == "remote"
else:
    raise SystemExit("not refused")
from torch.cuda import nvtx
class Traced(torch.nn.Module):
    def forward(self, x):
        scope = torch.ops.profiler._record_function_enter("part", None)
        y = x + 1
        torch.ops.profiler._record_function_exit(scope)
        return y
assert Traced()(x).equal(x + 1) and torch.fx.symbolic_trace(lambda x: torch.ops.profiler._record_function_exit(x)).graph
print("done")
"""


def test_modules_of_pytorch_that_libraries_import():
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(tensora.__file__))}
    done = subprocess.run([sys.executable, "-m", "tensora.compat", "-c", PROGRAM], env=environment, capture_output=True, text=True,
                          timeout=300)
    assert done.stdout.strip() == "done", done.stderr


def test_checks_of_conditions():
    program = ("import torch\n"
               "for name, error in (('', RuntimeError), ('_index', IndexError), ('_value', ValueError), ('_type', TypeError),\n"
               "                    ('_not_implemented', NotImplementedError)):\n"
               "    check = getattr(torch, '_check' + name)\n"
               "    check(True)\n"
               "    try:\n"
               "        check(False, lambda: 'why')\n"
               "        raise SystemExit(name)\n"
               "    except error as caught:\n"
               "        assert str(caught) == 'why'\n"
               "torch._check_is_size(0)\n"
               "torch._check_tensor_all(torch.ones(2) > 0)\n"
               "for wrong in (lambda: torch._check_is_size(-1), lambda: torch._check_tensor_all(torch.ones(2) > 1)):\n"
               "    try:\n"
               "        wrong()\n"
               "        raise SystemExit('no error')\n"
               "    except RuntimeError:\n"
               "        pass\n")
    assert subprocess.run([sys.executable, "-m", "tensora.compat", "-c", program]).returncode == 0


def test_more_names_of_libraries():
    program = ("import torch, gc\n"
               "from torch.utils.weak import WeakIdKeyDictionary\n"
               "x = torch.ones(2)\n"
               "table = WeakIdKeyDictionary({x: 1})\n"
               "assert x in table and torch.ones(2) not in table and table[x] == 1 and [k is x for k in table] == [True]\n"
               "del x\n"
               "gc.collect()\n"
               "assert len(table) == 0\n"
               "assert torch.get_device_module('cuda') is torch.cuda and torch.Tag.pt2_compliant_tag in torch.Tag\n"
               "assert torch.autograd.kineto_available() is False and torch.backends.opt_einsum.is_available()\n"
               "with torch.backends.cuda.sdp_kernel(enable_flash=False):\n"
               "    pass\n"
               "from torch.utils.checkpoint import CheckpointError, CheckpointPolicy, checkpoint, noop_context_fn\n"
               "y = torch.ones(2, requires_grad=True)\n"
               "checkpoint(torch.exp, y, use_reentrant=False, context_fn=noop_context_fn).sum().backward()\n"
               "assert y.grad is not None and CheckpointPolicy.MUST_SAVE\n")
    assert subprocess.run([sys.executable, "-m", "tensora.compat", "-c", program]).returncode == 0


def test_selective_checkpoints_are_refused():
    from tensora.utils.checkpoint import create_selective_checkpoint_contexts
    with pytest.raises(NotImplementedError, match="saves nothing"):
        create_selective_checkpoint_contexts([])
