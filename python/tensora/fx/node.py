"""One call of a graph."""
import builtins
import operator
import types
from typing import Any, Callable, Union

_OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")
_side_effects = set()
Target, Argument = Union[Callable[..., Any], str], Any  # for annotations


def has_side_effect(function):
    """Keeps calls of this function when dead code is eliminated."""
    _side_effects.add(function)
    return function


class immutable_list(list):
    """A list whose elements are fixed: arguments of nodes are replaced, never changed."""

    def _refuse(self, *args, **kwargs):
        raise NotImplementedError(f"'{type(self).__name__}' object does not support mutation; assign the node's args")

    __setitem__ = __delitem__ = append = extend = insert = pop = remove = clear = sort = reverse = __iadd__ = _refuse

    def __hash__(self):
        return hash(tuple(self))

    def __reduce__(self):
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dict whose items are fixed."""
    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = immutable_list._refuse

    def __hash__(self):
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return immutable_dict, (dict(self),)


def map_aggregate(value, function):
    """The same containers with function(element) for each element."""
    if isinstance(value, tuple):
        mapped = tuple(map_aggregate(item, function) for item in value)
        return mapped if not hasattr(value, "_fields") else type(value)(*mapped)
    if isinstance(value, list):
        return immutable_list(map_aggregate(item, function) for item in value)
    if isinstance(value, dict):
        return immutable_dict((key, map_aggregate(item, function)) for key, item in value.items())
    if isinstance(value, slice):
        return slice(*(map_aggregate(part, function) for part in (value.start, value.stop, value.step)))
    return function(value)


def map_arg(value, function):
    """The same containers with function(node) for each node."""
    return map_aggregate(value, lambda item: function(item) if isinstance(item, Node) else item)


def qualified_name(function):
    """How generated code names a function."""
    if getattr(builtins, getattr(function, "__name__", ""), None) is function:
        return function.__name__
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__name__", repr(function))
    if module == "_operator":
        module = "operator"
    return f"{module.replace('tensora', 'torch', 1)}.{name}" if module else name


class Node:
    """A call: `op` says of what kind, `target` what is called, `args` and `kwargs` with which arguments."""

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op not in _OPS:
            raise AssertionError(f"fx.Node: op must be one of {_OPS}, got {op!r}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a "
                             "Callable is expected")
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type, self.meta = return_type, {}
        self.users, self._input_nodes = {}, {}
        self._prev = self._next = self
        self._erased = False
        self._args, self._kwargs = (), {}
        self._set_inputs(args, kwargs)

    # ---- the list of nodes ----

    next = property(lambda self: self._next)
    prev = property(lambda self: self._prev)

    def prepend(self, node):
        """Moves `node` before this one."""
        if node is self:
            return
        node._remove_from_list()
        before = self._prev
        before._next, node._prev, node._next, self._prev = node, before, self, node

    def append(self, node):
        """Moves `node` behind this one."""
        self._next.prepend(node)

    def _remove_from_list(self):
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self

    # ---- arguments ----

    args = property(lambda self: self._args, lambda self, value: self._set_inputs(value, self._kwargs))
    kwargs = property(lambda self: self._kwargs, lambda self, value: self._set_inputs(self._args, value))
    all_input_nodes = property(lambda self: list(self._input_nodes))

    def _set_inputs(self, args, kwargs):
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def noted(node):
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node
        self._args, self._kwargs = map_arg(tuple(args), noted), map_arg(dict(kwargs), noted)

    def update_arg(self, idx, arg):
        """Replaces a positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        """Inserts a positional argument."""
        self.args = self._args[:idx] + (arg,) + self._args[idx:]

    def update_kwarg(self, key, arg):
        """Replaces a keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_all_uses_with(self, replace_with, delete_user_cb=lambda user: True, *, propagate_meta=False):
        """Lets other nodes use `replace_with` instead of this one; returns those that did."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input, new_input):
        def swapped(node):
            return new_input if node is old_input else node
        self._set_inputs(map_arg(self._args, swapped), map_arg(self._kwargs, swapped))

    def is_impure(self):
        """Whether it must stay although nobody uses its result."""
        if self.op in ("placeholder", "output") or self.target in _side_effects:
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            return self.target is operator.setitem or (name.endswith("_") and not name.endswith("__"))
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        return False

    # ---- text ----

    stack_trace = property(lambda self: self.meta.get("stack_trace"))

    def _pretty_print_target(self, target):
        return target if isinstance(target, str) else qualified_name(target)

    def format_node(self, placeholder_names=None, maybe_return_typename=None):
        """One line about it; None for those that Graph's text shows elsewhere."""
        if self.op == "placeholder":
            if placeholder_names is None:
                return f"%{self.name} : [num_users={len(self.users)}] = placeholder[target={self.target}]"
            placeholder_names.append(self.target if isinstance(self.target, str) else str(self.target))
            return None
        if self.op == "output" and maybe_return_typename is not None:
            return f"return {self.args[0]}"
        return (f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target="
                f"{self._pretty_print_target(self.target)}](args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})")

    def __repr__(self):
        return self.name


def _shown(value):
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple):
        inner = ", ".join(map(_shown, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in value.items()) + "}"
    return value.__name__ if isinstance(value, types.FunctionType) else repr(value)
