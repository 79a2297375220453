"""Small helpers that programs import from here."""
from collections.abc import Iterable


def _ntuple(count):
    def repeat(value):
        return tuple(value) if isinstance(value, Iterable) else (value,) * count
    return repeat


_single, _pair, _triple, _quadruple = (_ntuple(count) for count in (1, 2, 3, 4))


def _reverse_repeat_tuple(t, n):
    """(1, 2), 2 → (2, 2, 1, 1): a padding for each dim as nn.functional.pad takes it."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes `prefix` from the keys that begin with it, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix):]] = state_dict.pop(key)
