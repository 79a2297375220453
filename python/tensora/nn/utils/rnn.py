"""Sequences of different lengths."""
from collections import namedtuple

from ... import _C
from ..._C import Tensor


class PackedSequence(namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """Sequences of different lengths without padding."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        move = lambda t: None if t is None else t.to(device=kwargs.get("device") or self._device(args))  # noqa: E731
        return PackedSequence(self.data.to(*args, **kwargs), self.batch_sizes, move(self.sorted_indices),
                              move(self.unsorted_indices))

    @staticmethod
    def _device(args):
        return next((a for a in args if isinstance(a, (str, _C.device))), None)

    def cuda(self):
        return self.to("cuda")

    def cpu(self):
        return self.to("cpu")

    @property
    def is_cuda(self):
        return self.data.is_cuda


def invert_permutation(permutation):
    return None if permutation is None else _C.argsort(permutation)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs a padded batch of sequences."""
    lengths = lengths if isinstance(lengths, Tensor) else _C.tensor(lengths, dtype=_C.int64)
    return PackedSequence(*_C._pack_padded_sequence(input, lengths, batch_first, enforce_sorted))


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded batch and the lengths."""
    return _C._pad_packed_sequence(*sequence, batch_first, padding_value, total_length)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """One batch of sequences, filled up with padding_value."""
    if padding_side == "left":
        flipped = pad_sequence([s.flip(0) for s in sequences], batch_first, padding_value)
        return flipped.flip(1 if batch_first else 0)
    return _C.pad_sequence(list(sequences), batch_first, float(padding_value))


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(rows, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs a list of sequences."""
    lengths = [len(s) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths.tolist(), batch_first=True)
