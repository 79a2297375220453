"""A module whose forward is the code of a graph."""
import copy

from ..nn import Module, Parameter
from .graph import Graph
from .._C import Tensor


def _copied(source, target_module, name):
    """Puts the object of a dotted name at the same place of another module."""
    *path, last = name.split(".")
    for part in path:
        child = getattr(target_module, part, None)
        if child is None:
            child = Module()
            setattr(target_module, part, child)
        source, target_module = getattr(source, part), child
    value = getattr(source, last)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target_module.register_buffer(last, value)
    else:
        setattr(target_module, last, value)


def _copy_attr(from_module, to_module, target):
    """Puts the object of a dotted name at the same place of another module."""
    _copied(from_module, to_module, target)


_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # in GraphModule.meta: attributes that copies keep


class _CodeOnlyModule(Module):
    """A module with the attributes of another: what is left of a GraphModule without its graph."""

    def __init__(self, body):
        super().__init__()
        self.__dict__.update(body)


class GraphModule(Module):
    """Runs a graph; `code` is the source it runs, and `recompile()` must follow changes of the graph."""

    def __new__(cls, *args, **kwargs):
        # A class of its own for each, which holds its forward.
        made = type(cls.__name__, (cls,), {"__module__": cls.__module__, "_made_of": cls})
        return super().__new__(made)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
            for node in graph.nodes:
                if node.op in ("call_module", "get_attr"):
                    _copied(root, self, node.target)
        else:
            for name in sorted(root, key=lambda key: key.count(".")):
                *path, last = name.split(".")
                place = self
                for part in path:
                    if not hasattr(place, part):
                        setattr(place, part, Module())
                    place = getattr(place, part)
                setattr(place, last, root[name])
        self.graph = graph
        self.meta = {}

    @property
    def graph(self):
        return self._graph

    @graph.setter
    def graph(self, graph):
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self):
        """The source that runs."""
        return self._code

    def recompile(self):
        """Makes forward follow the graph."""
        generated = self._graph.python_code()
        scope = dict(generated.globals)
        exec(compile(generated.src, "<fx graph>", "exec"), scope)
        self.__dict__["_code"] = generated.src
        type(self).forward = scope["forward"]
        return generated

    def print_readable(self, print_output=True, **options):
        """The class as source; printed unless told otherwise."""
        if options:
            raise NotImplementedError(f"GraphModule.print_readable: {', '.join(options)} is not supported")
        text = f"class {type(self).__name__}(torch.nn.Module):\n    " + self.code.replace("\n", "\n    ").rstrip() + "\n"
        if print_output:
            print(text)
        return text

    def add_submodule(self, target, m):
        """Adds a module at a dotted name; False if a part of the name is no module."""
        *path, last = target.split(".")
        place = self
        for part in path:
            if not hasattr(place, part):
                setattr(place, part, Module())
            place = getattr(place, part)
            if not isinstance(place, Module):
                return False
        place.add_module(last, m)
        return True

    def delete_submodule(self, target):
        """Removes the module of a dotted name; False if there is none."""
        path, _, last = target.rpartition(".")
        try:
            place = self.get_submodule(path)
            place.get_submodule(last)
        except AttributeError:
            return False
        delattr(place, last)
        return True

    def delete_all_unused_submodules(self):
        """Removes the modules that no node calls."""
        used = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used |= {".".join(parts[:i + 1]) for i in range(len(parts))}
                if node.op == "call_module":
                    used |= {f"{node.target}.{name}" for name, _ in self.get_submodule(node.target).named_modules()}
        for name, _ in list(self.named_modules()):
            if name and name not in used:
                self.delete_submodule(name)

    def __deepcopy__(self, memo):
        result = type(self)._made_of.__new__(type(self)._made_of)
        Module.__init__(result)
        memo[id(self)] = result
        for key, value in self.__dict__.items():
            if key not in ("_graph", "_code"):
                result.__dict__[key] = copy.deepcopy(value, memo)
        type(result).__name__ = type(self).__name__
        result.graph = copy.deepcopy(self._graph)
        return result

    def __copy__(self):
        result = GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)
        result.meta = dict(self.meta)
        return result

    def __reduce__(self):
        state = {key: value for key, value in self.__dict__.items() if key not in ("_graph", "_code")}
        nodes = [(n.name, n.op, n.target, _named(n.args), _named(n.kwargs)) for n in self._graph.nodes]
        return _rebuilt, (state, nodes, type(self).__name__)


class _Name:
    """A node within the pickled arguments of another."""

    def __init__(self, name):
        self.name = name


def _named(value):
    from .node import map_arg
    return map_arg(value, lambda node: _Name(node.name))


def _rebuilt(state, nodes, class_name):
    from .node import map_aggregate
    graph, made = Graph(), {}

    def found(value):
        return map_aggregate(value, lambda item: made[item.name] if isinstance(item, _Name) else item)
    for name, op, target, args, kwargs in nodes:
        made[name] = graph.create_node(op, target, found(args), found(kwargs), name)
    module = GraphModule.__new__(GraphModule)
    Module.__init__(module)
    module.__dict__.update(state)
    type(module).__name__ = class_name
    module.graph = graph
    return module
