"""Running a graph node by node."""
from .graph import Graph
from .graph_module import GraphModule
from .node import map_aggregate, map_arg
from .proxy import Proxy
from .tracer import Tracer


class Interpreter:
    """Runs the nodes in order; a subclass changes what a kind of node does."""

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module, self.graph = module, module.graph if graph is None else graph
        self.garbage_collect_values, self.env = garbage_collect_values, {}
        self.extra_traceback = True
        self._last_user = {}
        for node in self.graph.nodes:
            for used in node.all_input_nodes:
                self._last_user[used] = node

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """The graph's output for these arguments."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args if enable_io_processing else tuple(args))
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback and hasattr(error, "add_note"):
                    error.add_note(f"While executing {node.format_node()}")
                raise
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for used in node.all_input_nodes:
                    if self._last_user[used] is node:
                        self.env.pop(used, None)
        return None

    def boxed_run(self, args_list):
        """run with a list of arguments, which it empties."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n):
        """The result of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n):
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        """The arguments of the node `n` with values in place of nodes."""
        def value(node):
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues")
            return self.env[node]
        plain = map_arg(args, value)
        return map_aggregate(plain, lambda item: item)

    def fetch_attr(self, target):
        """The object of a dotted name in the module."""
        place = self.module
        for part in target.split("."):
            if not hasattr(place, part):
                raise RuntimeError(f"Node referenced nonexistent target {target}")
            place = getattr(place, part)
        return place

    def placeholder(self, target, args, kwargs):
        if target.startswith("**"):
            raise NotImplementedError("Interpreter: keyword arguments of a graph (**kwargs) are not supported")
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!") from None

    def get_attr(self, target, args, kwargs):
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target, args, kwargs):
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        return args[0]


class Transformer(Interpreter):
    """An Interpreter over proxies: transform() gives the GraphModule of what it recorded."""

    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = Tracer()
        self.tracer.graph, self.tracer.root = self.new_graph, module

    def placeholder(self, target, args, kwargs):
        return Proxy(self.new_graph.placeholder(target, default_value=args[0] if args else ...), self.tracer)

    def get_attr(self, target, args, kwargs):
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        """The module of the new graph."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(self.tracer.create_arg(result))
        return GraphModule(self.module, self.new_graph)
