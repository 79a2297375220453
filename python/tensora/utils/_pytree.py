"""Trees of containers: flattened into a list of leaves and a spec, and built again from them."""
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

PyTree = Any
NodeDef = namedtuple("NodeDef", ["type", "flatten_fn", "unflatten_fn", "flatten_with_keys_fn"])
SUPPORTED_NODES = {}
_serialized_names = {}


class SequenceKey(namedtuple("SequenceKey", ["idx"])):
    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


class MappingKey(namedtuple("MappingKey", ["key"])):
    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


class GetAttrKey(namedtuple("GetAttrKey", ["name"])):
    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):
    """Makes a class a container: flatten_fn gives its children and a context, unflatten_fn takes both.

    There is no text form of specs, so to_dumpable_context and from_dumpable_context must come together and are kept
    for the program's own use.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    if serialized_type_name is not None:
        _serialized_names[cls] = serialized_type_name


_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls):
    SUPPORTED_NODES.pop(cls, None)
    _serialized_names.pop(cls, None)


def _mapping(cls, make):
    register_pytree_node(cls, lambda d: _dict_flatten(d), make, flatten_with_keys_fn=lambda d: _dict_flatten_with_keys(d))


def _sequence(cls, make):
    register_pytree_node(cls, lambda s: (list(s), None), lambda values, _: make(values),
                         flatten_with_keys_fn=lambda s: ([(SequenceKey(i), v) for i, v in enumerate(s)], None))


_sequence(tuple, tuple)
_sequence(list, list)
_mapping(dict, lambda values, keys: dict(zip(keys, values)))
_mapping(OrderedDict, lambda values, keys: OrderedDict(zip(keys, values)))
register_pytree_node(namedtuple, lambda t: (list(t), type(t)), lambda values, kind: kind(*values),
                     flatten_with_keys_fn=lambda t: ([(GetAttrKey(f), v) for f, v in zip(t._fields, t)], type(t)))
register_pytree_node(defaultdict, lambda d: (list(d.values()), (d.default_factory, list(d))),
                     lambda values, context: defaultdict(context[0], zip(context[1], values)),
                     flatten_with_keys_fn=lambda d: ([(MappingKey(k), v) for k, v in d.items()],
                                                     (d.default_factory, list(d))))
register_pytree_node(deque, lambda d: (list(d), d.maxlen), deque,
                     flatten_with_keys_fn=lambda d: ([(SequenceKey(i), v) for i, v in enumerate(d)], d.maxlen))


# The parts of the registrations above, which libraries use for dicts of their own.

def _dict_flatten(d):
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d):
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values, context):
    return dict(zip(context, values))


def _namedtuple_flatten(d):
    return list(d), type(d)


def _namedtuple_unflatten(values, context):
    return context(*values)


def is_namedtuple_class(cls):
    """Whether it is a class that collections.namedtuple made, or one below it."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple_instance(obj):
    return is_namedtuple_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


class structseq:
    """Stands for the types of several results, such as that of tensora.max(x, 0)."""


register_pytree_node(structseq, lambda t: (list(t), type(t)), lambda values, kind: kind(values),
                     flatten_with_keys_fn=lambda t: ([(SequenceKey(i), v) for i, v in enumerate(t)], type(t)))


def _get_node_type(tree):
    kind = type(tree)
    if kind in SUPPORTED_NODES or not isinstance(tree, tuple):
        return kind
    return namedtuple if is_namedtuple_class(kind) else structseq if hasattr(kind, "n_sequence_fields") else kind


def _is_leaf(tree, is_leaf=None):
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


class TreeSpec:
    """The shape of a tree: the container's type, its context, and the specs of its children."""

    def __init__(self, type, context, children_specs):
        self.type, self.context, self.children_specs = type, context, list(children_specs)
        self.num_nodes = 1 + sum(child.num_nodes for child in self.children_specs)
        self.num_leaves = sum(child.num_leaves for child in self.children_specs)
        self.num_children = len(self.children_specs)

    def is_leaf(self):
        return False

    def children(self):
        return list(self.children_specs)

    def child(self, index):
        return self.children_specs[index]

    def unflatten(self, leaves):
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree):
        """The parts of a tree that stand where this one has leaves."""
        found = []
        self._collect(tree, found)
        return found

    def _collect(self, tree, found):
        kind = _get_node_type(tree)
        if kind is not self.type:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if kind in (dict, OrderedDict) and set(context) == set(self.context):
            children = [tree[key] for key in self.context]
        elif context != self.context:
            raise ValueError(f"Node context mismatch; expected {self.context!r}, but got {context!r}.")
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        for child, spec in zip(children, self.children_specs):
            spec._collect(child, found)

    def __eq__(self, other):
        return (isinstance(other, TreeSpec) and (self.type, self.context, self.children_specs)
                == (other.type, other.context, other.children_specs))

    def __hash__(self):
        return hash((self.type, str(self.context), tuple(self.children_specs)))

    def __repr__(self):
        inner = ", ".join(map(repr, self.children_specs))
        return f"TreeSpec({getattr(self.type, '__name__', self.type)}, {self.context}, [{inner}])"


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    def __init__(self):
        super().__init__(None, None, [])
        self.num_leaves = 1

    def is_leaf(self):
        return True

    def _collect(self, tree, found):
        found.append(tree)

    def __repr__(self):
        return "*"


def treespec_leaf():
    return LeafSpec()


def _flatten(tree, leaves, is_leaf):
    if _is_leaf(tree, is_leaf):
        leaves.append(tree)
        return LeafSpec()
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_flatten(tree, is_leaf=None):
    """The leaves in order, and the spec that builds the tree again.

    >>> from tensora.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": [1, 2], "b": (3,)})
    >>> leaves, tree_unflatten([x * 10 for x in leaves], spec)
    ([1, 2, 3], {'a': [10, 20], 'b': (30,)})
    """
    leaves = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    """The tree of this spec with these leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a "
                         f"pytree that holds {treespec.num_leaves} items ({treespec}).")
    return _built(treespec, iter(leaves))


def _built(spec, leaves):
    if spec.is_leaf():
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_built(child, leaves) for child in spec.children_specs], spec.context)


def tree_leaves(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree of func(leaf), or of func(leaf, other leaves in the same place …)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten(list(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests))), spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls func for every leaf and returns the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for values in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests)):
        func(*values)
    return tree


def _is_one_of(types):
    if isinstance(types, (type, tuple)) or not callable(types):
        return lambda x: isinstance(x, types)
    return types


def map_only(types, /):
    """Decorates a function so that it changes only leaves of these types."""
    fits = _is_one_of(types)
    return lambda func: lambda x: func(x) if fits(x) else x


def tree_map_only(types, /, func, tree, is_leaf=None):
    """tree_map over the leaves of these types; the others stay."""
    return tree_map(map_only(types)(func), tree, is_leaf=is_leaf)


def tree_map_only_(types, /, func, tree, is_leaf=None):
    return tree_map_(map_only(types)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(types, /, pred, tree, is_leaf=None):
    fits = _is_one_of(types)
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if fits(x))


def tree_any_only(types, /, pred, tree, is_leaf=None):
    fits = _is_one_of(types)
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if fits(x))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of a tree that is a prefix of the spec, each as often as there are leaves below it."""
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf():
        return None
    kind = _get_node_type(tree)
    if kind is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    result = []
    for child, spec in zip(children, treespec.children_specs):
        flat = _broadcast_to_and_flatten(child, spec, is_leaf)
        if flat is None:
            return None
        result += flat
    return result


def _with_paths(tree, path, found, is_leaf):
    if _is_leaf(tree, is_leaf):
        found.append((path, tree))
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {type(tree)}.")
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        _with_paths(child, path + (key,), found, is_leaf)


def tree_flatten_with_path(tree, is_leaf=None):
    """(path, leaf) pairs, and the spec."""
    found = []
    _with_paths(tree, (), found, is_leaf)
    return found, tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """tree_map whose function gets the path of the leaf first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    rest = [spec.flatten_up_to(other) for other in rests]
    return tree_unflatten([func(path, leaf, *others) for (path, leaf), *others in zip(pairs, *rest)], spec)


def keystr(key_path):
    """A path as text: "['a'][0]"."""
    return "".join(map(str, key_path))


def key_get(obj, key_path):
    for key in key_path:
        obj = key.get(obj)
    return obj
