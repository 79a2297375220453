"""tensora.fx: tracing, changing and running graphs."""
import copy
import operator
import pickle

import pytest

import tensora
from tensora import fx, nn
from tensora.nn import functional as F


def helper(x, y):
    return x + y if x.sum() > 0 else y


fx.wrap("helper")
fx.wrap("len")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 8), nn.BatchNorm1d(8)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(8, 3))
        self.scale = nn.Parameter(tensora.tensor(2.0))
        self.register_buffer("shift", tensora.ones(3))

    def forward(self, x, flag=False):
        h = self.norm(F.gelu(self.first(x)))
        h = F.softmax(self.rest(h), dim=-1) * self.scale + self.shift
        size = x.size(0)
        return tensora.cat([h, h.view(size, -1)[:, :1]], dim=1).clamp(min=0.1), x.shape[1]


def test_a_traced_module_computes_the_same():
    net = Net().eval()
    traced = fx.symbolic_trace(net)
    x = tensora.randn(5, 4)
    ours, theirs = net(x), traced(x)
    assert tensora.equal(ours[0], theirs[0]) and ours[1] == theirs[1] == 4
    ops = [node.op for node in traced.graph.nodes]
    assert ops[:2] == ["placeholder", "placeholder"] and ops[-1] == "output"
    assert ops.count("call_module") == 4 and ops.count("get_attr") == 2
    traced.graph.lint()
    assert dict(traced.named_parameters())["scale"] is net.scale
    assert "def forward(self, x, flag = False)" in traced.code
    loss = traced(x)[0].sum()
    loss.backward()
    assert net.scale.grad is not None
    # The functions are themselves again.
    assert tensora.equal(net(x)[0], ours[0]) and type(F.softmax(x, -1)) is tensora.Tensor


def test_copies_and_pickles_of_a_graph_module():
    traced = fx.symbolic_trace(Net().eval())
    x = tensora.randn(2, 4)
    for again in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert tensora.equal(again(x)[0], traced(x)[0]) and again.code == traced.code
        again.scale.data.fill_(0)
        assert not tensora.equal(again(x)[0], traced(x)[0])


def test_replacing_an_op():
    traced = fx.symbolic_trace(lambda x, y: (tensora.relu(x) + y) * 2)
    for node in traced.graph.nodes:
        if node.target is operator.add:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(tensora.mul, node.args, node.kwargs)
                node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    traced.recompile()
    assert traced(tensora.tensor([-1.0, 3.0]), tensora.tensor([5.0, 5.0])).tolist() == [0, 30]
    with pytest.raises(RuntimeError, match="still had 1 users"):
        traced.graph.erase_node(next(iter(traced.graph.nodes)))


def test_dead_code_and_lint():
    traced = fx.symbolic_trace(lambda x: (x + 1, x * 2, x.add_(3))[0])
    assert len(traced.graph.nodes) == 5
    traced.graph.eliminate_dead_code()
    assert [n.name for n in traced.graph.nodes] == ["x", "add", "add_", "output"]
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(tensora.neg, (x,))
    graph.output(y)
    graph.lint()
    x.prepend(y)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()


def test_control_flow_and_wrapped_functions():
    with pytest.raises(fx.TraceError, match="control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(fx.TraceError, match="iterated"):
        fx.symbolic_trace(lambda x: [y for y in x])
    first, second = (fx.symbolic_trace(lambda x: helper(x, 1) + len(x)), fx.symbolic_trace(lambda x: x))
    assert [n.target for n in first.graph.nodes if n.op == "call_function"][:2] == [helper, len]
    assert first(tensora.ones(2)).tolist() == [4, 4] and second.graph.output_node().args[0].op == "placeholder"

    def unpacks(x):
        a, b = x.chunk(2)
        return a - b
    assert fx.symbolic_trace(unpacks)(tensora.tensor([5.0, 2.0])).tolist() == [3]


def test_interpreters_and_transformers():
    traced = fx.symbolic_trace(Net().eval())
    x, seen = tensora.randn(3, 4), []

    class Watch(fx.Interpreter):
        def call_module(self, target, args, kwargs):
            seen.append(target)
            return super().call_module(target, args, kwargs)

    class Negate(fx.Transformer):
        def call_method(self, target, args, kwargs):
            return super().call_method("neg" if target == "clamp" else target, args[:1] if target == "clamp" else args,
                                       {} if target == "clamp" else kwargs)
    assert tensora.equal(Watch(traced).run(x)[0], traced(x)[0]) and seen == ["first", "norm", "rest.0", "rest.1"]
    changed = Negate(traced).transform()
    assert bool((changed(x)[0] <= 0).all())


def test_patterns():
    def program(x, y):
        return tensora.relu(x + y) + tensora.relu(x * 2 + y)
    traced = fx.symbolic_trace(program)
    matches = fx.replace_pattern(traced, lambda a, b: tensora.relu(a + b), lambda a, b: (a - b).abs())
    x, y = tensora.tensor([1.0, -4.0]), tensora.tensor([3.0, 1.0])
    assert len(matches) == 2 and tensora.equal(traced(x, y), (x - y).abs() + (x * 2 - y).abs())
    traced.graph.lint()


def test_tracers_of_one_s_own():
    class All(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return module_qualified_name == "rest" or super().is_leaf_module(m, module_qualified_name)
    net = Net().eval()
    graph = All().trace(net)
    assert [n.target for n in graph.find_nodes(op="call_module")] == ["first", "norm", "rest"]
    x = tensora.randn(2, 4)
    assert tensora.allclose(fx.GraphModule(net, graph)(x)[0], net(x)[0])
    assert fx.symbolic_trace(Net(), concrete_args={"flag": True}).graph.find_nodes(op="placeholder")[-1].target == "x"


def test_losses_are_recorded():
    graph = fx.symbolic_trace(lambda x, y: F.mse_loss(x, y) + F.huber_loss(x, y))
    x = tensora.ones(2)
    assert graph(x, x * 3).item() == 5.5
