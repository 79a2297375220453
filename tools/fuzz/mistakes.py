"""One argument of a call replaced by something wrong or unusual: what one library refuses, the other should."""
import math

NUMBERS = (-1, -3, 0, 7, 99, 2**40, -2**63, 2**63 - 1)
FRACTIONS = (math.nan, math.inf, -1.0, 0.0, 1e300)


def places_in(value, path=()):
    """The paths of all that is no list, tuple or dict."""
    if isinstance(value, dict):
        return [p for key, v in value.items() for p in places_in(v, (*path, key))]
    if isinstance(value, (list, tuple)):
        return [p for i, v in enumerate(value) for p in places_in(v, (*path, i))]
    return [path]


def replaced(value, path, change):
    if not path:
        return change(value)
    if isinstance(value, dict):
        return {k: replaced(v, path[1:], change) if k == path[0] else v for k, v in value.items()}
    return type(value)(replaced(v, path[1:], change) if i == path[0] else v for i, v in enumerate(value))


def tensor_instead(d, pair):
    """Of another shape, another dtype or without elements."""
    sizes = list(pair.theirs.shape)
    dtype = str(pair.theirs.dtype)[6:]
    kind = d.pick("dtype", "fewer", "more", "size", "empty", "scalar")
    if kind == "dtype":
        dtype = d.pick("bool", "uint8", "int64", "float16", "float64", "complex64")
    if kind == "fewer":
        sizes = sizes[1:]
    if kind == "more":
        sizes = [d.pick(1, 2), *sizes]
    if kind in ("size", "empty") and sizes:
        sizes[d.rng.randrange(len(sizes))] = 0 if kind == "empty" else d.pick(1, 2, 5)
    return d.x(*(sizes if kind != "scalar" else []), dtype=dtype)


def mistaken(d, arguments, options):
    """The arguments with one mistake."""
    places = [(0, *p) for p in places_in(arguments)] + [(1, *p) for p in places_in(options)]
    if not places:
        return arguments, options

    def change(value):
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return d.rng.choice(NUMBERS)
        if isinstance(value, float):
            return d.rng.choice(FRACTIONS)
        if isinstance(value, str):
            return "none of these"
        return tensor_instead(d, value) if hasattr(value, "theirs") else None
    return replaced((arguments, options), d.rng.choice(places), change)
