"""Replacing a pattern of calls by another."""
from collections import namedtuple

from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .tracer import symbolic_trace

Match = namedtuple("Match", ["anchor", "nodes_map"])


def _graph(of):
    if isinstance(of, Graph):
        return of
    return of.graph if isinstance(of, GraphModule) else symbolic_trace(of).graph


def _matches(pattern, node, found):
    """Whether the value of `node` is computed as that of `pattern`; `found` gets what stands for what."""
    if not isinstance(pattern, Node) or not isinstance(node, Node):
        return not isinstance(pattern, Node) and type(pattern) is type(node) and pattern == node
    if pattern in found:
        return found[pattern] is node
    if pattern.op == "placeholder":
        found[pattern] = node
        return True
    if (pattern.op, pattern.target) != (node.op, node.target):
        return False
    if not _same(pattern.args, node.args, found) or not _same(dict(pattern.kwargs), dict(node.kwargs), found):
        return False
    found[pattern] = node
    return True


def _same(a, b, found):
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(_same(x, y, found) for x, y in zip(a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[key], b[key], found) for key in a)
    if isinstance(a, Node) and a.op == "placeholder" and not isinstance(b, Node):
        if a in found:
            return not isinstance(found[a], Node) and found[a] == b
        found[a] = b  # a parameter of the pattern stands for a constant, too
        return True
    return _matches(a, b, found)


def _is_closed(found, anchor):
    """Whether nothing outside of the match uses what is computed inside."""
    inner = {node for pattern, node in found.items() if isinstance(node, Node) and pattern.op != "placeholder"}
    return all(user in inner for node in inner if node is not anchor for user in node.users)


def replace_pattern(gm, pattern, replacement):
    """Replaces every part of a GraphModule's graph that computes as `pattern` does by `replacement`.

    Both are functions or modules with the same parameters and one result. Returns the matches.
    """
    wanted, substitute = _graph(pattern), _graph(replacement)
    root = wanted.output_node().args[0]
    if not isinstance(root, Node):
        raise NotImplementedError("replace_pattern: a pattern has one result")
    inputs, new_inputs = wanted.find_nodes(op="placeholder"), substitute.find_nodes(op="placeholder")
    if len(inputs) != len(new_inputs):
        raise RuntimeError(f"replace_pattern: the pattern has {len(inputs)} parameters, and the replacement "
                           f"{len(new_inputs)}")
    matches, used = [], set()
    for node in list(gm.graph.nodes):
        found = {}
        if node._erased or not _matches(root, node, found) or not _is_closed(found, node):
            continue
        inner = {n for p, n in found.items() if isinstance(n, Node) and p.op != "placeholder"}
        if inner & used:
            continue
        used |= inner
        values = {new: found[old] for old, new in zip(inputs, new_inputs)}
        with gm.graph.inserting_before(node):
            result = gm.graph.graph_copy(substitute, values)
        used |= {n for n in values.values() if isinstance(n, Node) and n not in found.values()}
        node.replace_all_uses_with(result)
        for old in [n for n in reversed(list(gm.graph.nodes)) if n in inner]:
            gm.graph.erase_node(old)
        matches.append(Match(node, {p: n for p, n in found.items()}))
    gm.recompile()
    return matches
