"""The list of nodes, and the source code it stands for."""
import builtins
import contextlib
import keyword
import math
import operator
import re
from collections import namedtuple

from .node import Node, map_arg, qualified_name

PythonCode = namedtuple("PythonCode", ["src", "globals"])
_INFIX = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
          operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.lshift: "<<", operator.rshift: ">>",
          operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.eq: "==", operator.ne: "!=",
          operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}
_RESERVED = set(keyword.kwlist) | set(dir(builtins)) | {"torch", "device", "inf", "nan", "NoneType", "self"}


class _Names:
    """Names that are used once."""

    def __init__(self):
        self._used = set(_RESERVED)

    def create(self, candidate):
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        base, number = candidate, 0
        match = re.fullmatch(r"(.*)_(\d+)", candidate)
        if match and candidate in self._used:
            base, number = match.group(1), int(match.group(2))
        while candidate in self._used:
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        return candidate


class CodeGen:
    """Writes a graph as the source of a `forward`."""

    def __init__(self):
        self._globals = {}

    def _global(self, value, hint):
        """The name under which generated code finds an object."""
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", hint)
        while self._globals.get(name, value) is not value:
            name += "_"
        self._globals[name] = value
        return name

    def _value(self, value):
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):
            if hasattr(value, "_fields"):
                return f"{self._global(type(value), type(value).__name__)}({', '.join(map(self._value, value))})"
            return "(" + "".join(f"{self._value(item)}, " for item in value) + ")"
        if isinstance(value, list):
            return "[" + ", ".join(map(self._value, value)) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self._value(item)}" for key, item in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self._value(value.start)}, {self._value(value.stop)}, {self._value(value.step)})"
        if isinstance(value, float) and not math.isfinite(value):
            return f"float({str(value)!r})"
        if value is ...:
            return "..."
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, range)):
            return repr(value)
        return self._global(value, qualified_name(value) if callable(value) else str(value))

    def _arguments(self, args, kwargs):
        shown = [self._value(value) for value in args] + [f"{key} = {self._value(v)}" for key, v in kwargs.items()]
        return ", ".join(shown)

    def _call(self, node):
        """The expression of a node."""
        args, kwargs = node.args, node.kwargs
        if node.op == "call_method":
            return f"{self._value(args[0])}.{node.target}({self._arguments(args[1:], kwargs)})"
        if node.op in ("call_module", "get_attr"):
            place = "self"
            for part in node.target.split("."):
                place = f"{place}.{part}" if part.isidentifier() else f"getattr({place}, {part!r})"
            return place if node.op == "get_attr" else f"{place}({self._arguments(args, kwargs)})"
        if node.target in _INFIX and len(args) == 2 and not kwargs:
            return f"{self._value(args[0])} {_INFIX[node.target]} {self._value(args[1])}"
        if node.target is operator.getitem and not kwargs:
            return f"{self._value(args[0])}[{self._value(args[1])}]"
        if node.target is getattr and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            return f"{self._value(args[0])}.{args[1]}"
        return f"{self._global(node.target, qualified_name(node.target))}({self._arguments(args, kwargs)})"

    def generate(self, nodes, root="self"):
        """The source and the objects that it names."""
        self._globals, parameters, lines, last_use = {}, [], [], {}
        for node in nodes:
            for used in node.all_input_nodes:
                last_use[used] = node
        for node in nodes:
            if node.op == "placeholder":
                default = f" = {self._value(node.args[0])}" if node.args else ""
                parameters.append(f"{node.target}{default}")
                if node.target != node.name:
                    lines.append(f"{node.name} = {node.target.lstrip('*')}")
                continue
            if node.op == "output":
                lines.append(f"return {self._value(node.args[0])}")
                continue
            finished = [used.name for used, user in last_use.items() if user is node]
            freed = f";  {' = '.join(finished)} = None" if finished else ""
            lines.append(f"{node.name} = {self._call(node)}{freed}")
        body = "\n    ".join(lines or ["pass"])
        return PythonCode(f"def forward({', '.join([root, *parameters])}):\n    {body}\n", dict(self._globals))


class Graph:
    """A program as a list of nodes, in the order in which they run."""

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "", (), {})
        self._insert_before = self._root
        self._names, self._codegen = _Names(), CodeGen()
        self.owning_module, self._tracer_cls = owning_module, tracer_cls
        self._tracer_extras = tracer_extras

    # ---- looking ----

    @property
    def nodes(self):
        return _NodeList(self)

    def find_nodes(self, *, op, target=None, sort=True):
        """The nodes of a kind, in order; `target` is compared unless it is None."""
        found = [node for node in self.nodes if node.op == op and (target is None or node.target == target)]
        return found if sort else list(found)

    def output_node(self):
        return self.find_nodes(op="output")[-1]

    # ---- building ----

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """Inserts a node where the graph is being written: at the end, or where inserting_before said."""
        args, kwargs = args or (), kwargs or {}
        name = self._names.create(name or self._hint(op, target))
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._insert_before.prepend(node)
        return node

    @staticmethod
    def _hint(op, target):
        if op in ("call_function", "call_method"):
            name = target if isinstance(target, str) else getattr(target, "__name__", "function")
            return name.strip("_") if name.startswith("__") else name
        return target.lstrip("*").replace(".", "_") if isinstance(target, str) else op

    def placeholder(self, name, type_expr=None, default_value=...):
        return self.create_node("placeholder", name, () if default_value is ... else (default_value,),
                                type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result, type_expr=None):
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda x: x):
        """A copy of a node of another graph; arg_transform turns that graph's nodes into this one's."""
        result = self.create_node(node.op, node.target, map_arg(node.args, arg_transform),
                                  map_arg(node.kwargs, arg_transform), node.name, node.type)
        result.meta = dict(node.meta)
        return result

    def graph_copy(self, g, val_map, return_output_node=False):
        """Copies the nodes of another graph; val_map gets what stands for them here. Returns its output."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    @contextlib.contextmanager
    def _inserting(self, at):
        before, self._insert_before = self._insert_before, at
        try:
            yield
        finally:
            self._insert_before = before

    def inserting_before(self, n=None):
        """Within the scope, new nodes go before `n`, or to the beginning."""
        return self._inserting(self._root.next if n is None else n)

    def inserting_after(self, n=None):
        """Within the scope, new nodes go behind `n`, or to the end."""
        return self._inserting(self._root if n is None else n.next)

    def erase_node(self, to_erase):
        """Takes a node out that nobody uses."""
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the "
                               f"graph: {to_erase.users}!")
        if to_erase._erased:
            return
        if self._insert_before is to_erase:
            self._insert_before = to_erase.next
        to_erase._remove_from_list()
        to_erase._set_inputs((), {})
        to_erase._erased = True

    def eliminate_dead_code(self, is_impure_node=None):
        """Takes nodes out whose results nobody uses; says whether there were any."""
        is_impure, changed = is_impure_node or Node.is_impure, False
        for node in reversed(list(self.nodes)):
            if not node.users and not is_impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def lint(self):
        """Raises if a node uses one that comes later or is not in the graph, or names what the module has not."""
        seen, names = set(), set()
        for node in self.nodes:
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' does not belong to this Graph")
                if used not in seen:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' was used before it has been defined!")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("call_module", "get_attr"):
                self._lint_target(node)

    def _lint_target(self, node):
        place = self.owning_module
        for part in node.target.split("."):
            if not hasattr(place, part):
                raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part}")
            place = getattr(place, part)

    # ---- text and code ----

    def python_code(self, root_module="self", **options):
        """The source of a `forward`, and the objects it names."""
        if options:
            raise NotImplementedError(f"Graph.python_code: {', '.join(options)} is not supported")
        return self._codegen.generate(list(self.nodes), root_module)

    def set_codegen(self, codegen):
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        raise NotImplementedError("Graph.on_generate_code: derive from fx.CodeGen and use set_codegen")

    def print_tabular(self):
        """Prints the nodes, a row each."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, n._pretty_print_target(n.target), str(n.args), str(dict(n.kwargs))) for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        print("\n".join(lines))

    def __str__(self):
        names = []
        lines = [line for line in (node.format_node(names, []) for node in self.nodes) if line]
        return f"graph({', '.join('%' + name for name in names)}):\n    " + "\n    ".join(lines)

    def __deepcopy__(self, memo=None):
        result, values = Graph(tracer_cls=self._tracer_cls), {}
        output = result.graph_copy(self, values, return_output_node=True)
        if output is not None:
            result.output(output[0], getattr(output[1], "type", None)).meta = dict(output[1].meta)
        if memo is not None:
            memo[id(self)] = result
        return result


class _NodeList:
    """The nodes in order; nodes may be erased and inserted while it is iterated."""

    def __init__(self, graph, backwards=False):
        self._graph, self._backwards = graph, backwards

    def __iter__(self):
        step = "_prev" if self._backwards else "_next"
        node = getattr(self._graph._root, step)
        while node is not self._graph._root:
            following = getattr(node, step)
            if not node._erased:
                yield node
                following = getattr(node, step) if not node._erased else following
            node = following

    def __reversed__(self):
        return iter(_NodeList(self._graph, not self._backwards))

    def __len__(self):
        return sum(1 for _ in self)
