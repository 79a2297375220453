"""Graphs of programs: symbolic_trace records the calls of a module or function, GraphModule runs the record.

>>> class Net(nn.Module):
...     def forward(self, x):
...         return tensora.relu(x) + 1
>>> traced = tensora.fx.symbolic_trace(Net())
>>> [node.op for node in traced.graph.nodes]
['placeholder', 'call_function', 'call_function', 'output']
>>> traced(tensora.tensor([-1., 2.]))
tensor([1., 3.])
"""
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy, TraceError
from .rewriter import Match, replace_pattern
from .tracer import Tracer, symbolic_trace, wrap

__all__ = ["CodeGen", "Graph", "GraphModule", "Interpreter", "Match", "Node", "Proxy", "TraceError", "Tracer",
           "Transformer", "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "wrap"]

_FILES = {"_symbolic_trace": "tracer", "subgraph_rewriter": "rewriter", "immutable_collections": "node"}


def __getattr__(name):
    if name in _FILES:
        import importlib
        return importlib.import_module(f"{__name__}.{_FILES[name]}")
    raise AttributeError(f"module 'tensora.fx' has no attribute '{name}'")
