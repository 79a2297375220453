"""How much memory a pickle of a stranger may take, judged before anything of it is made.

Python's own reader sets no limit: one byte makes a set of 216 bytes, and five bytes make it reserve a memo of gigabytes.
"""
import pickle
import pickletools

from . import _C

_OPCODE = 64  # what an instruction takes at most, if it is not one of these: bytes
_COSTS = {"EMPTY_LIST": 96, "LIST": 96, "EMPTY_DICT": 128, "DICT": 128, "EMPTY_SET": 256, "FROZENSET": 256, "REDUCE": 512, "NEWOBJ": 512, "NEWOBJ_EX": 512}
_BETWEEN = 1 << 16  # instructions between two looks at the limit


def check(content, packed_bytes):
    """Raises if a pickle, bytes or a mapped file, would take more than `TENSORA_UNPACK_LIMIT` allows from that many bytes."""
    try:
        _check(content, packed_bytes)
    except (ValueError, OverflowError) as damage:  # of pickletools
        raise pickle.UnpicklingError(f"load: the pickle is damaged: {damage}") from None


def _check(content, packed_bytes):
    cost = 0
    for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        name = opcode.name
        cost += _COSTS.get(name, _OPCODE)
        if isinstance(argument, (str, bytes, bytearray)):
            cost += len(argument) * (4 if isinstance(argument, str) else 1)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT") and argument > count:
            raise pickle.UnpicklingError(f"load: the pickle remembers object {argument} after {count} instructions")
        if count % _BETWEEN == 0:
            _C._check_unpacked("the pickle", cost, packed_bytes)
    _C._check_unpacked("the pickle", cost, packed_bytes)


def byte_array(*arguments):
    """In place of bytearray, which makes as many bytes as a number says."""
    if arguments and not isinstance(arguments[0], (bytes, str)):
        raise pickle.UnpicklingError(f"load: a bytearray of a {type(arguments[0]).__name__}")
    return bytearray(*arguments)
