"""Sequences of different lengths."""
from __future__ import annotations

from typing import Any, Iterable, NamedTuple

from ... import _C
from ..._C import Tensor


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences of different lengths without padding: their elements in `data`, step by step, how many sequences have each
    step in `batch_sizes`, and the order by length and back in `sorted_indices` and `unsorted_indices`."""

    def __new__(cls, data: Tensor, batch_sizes: Any = None, sorted_indices: Tensor | None = None,
                unsorted_indices: Tensor | None = None) -> PackedSequence:
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        move = lambda t: None if t is None else t.to(device=kwargs.get("device") or self._device(args))  # noqa: E731
        return PackedSequence(self.data.to(*args, **kwargs), self.batch_sizes, move(self.sorted_indices),
                              move(self.unsorted_indices))

    @staticmethod
    def _device(args):
        return next((a for a in args if isinstance(a, (str, _C.device))), None)

    double, float, half = (lambda self: self.to(_C.float64)), (lambda self: self.to(_C.float32)), (
        lambda self: self.to(_C.float16))
    long, int, short = (lambda self: self.to(_C.int64)), (lambda self: self.to(_C.int32)), (lambda self: self.to(_C.int16))
    char, byte = (lambda self: self.to(_C.int8)), (lambda self: self.to(_C.uint8))

    def pin_memory(self):
        return PackedSequence(self.data.pin_memory(), self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def is_pinned(self):
        return self.data.is_pinned()

    def cuda(self):
        return self.to("cuda")

    def cpu(self):
        return self.to("cpu")

    @property
    def is_cuda(self):
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation`."""
    return None if permutation is None else _C.argsort(permutation)


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """Packs a padded batch of sequences `input` [L, N, …], or [N, L, …] if `batch_first`, of `lengths`; with
    `enforce_sorted` these must fall."""
    lengths = lengths if isinstance(lengths, Tensor) else _C.tensor(lengths, dtype=_C.int64)
    return PackedSequence(*_C._pack_padded_sequence(input, lengths, batch_first, enforce_sorted))


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:
    """The padded batch of `sequence`, [N, L, …] if `batch_first`, filled up with `padding_value` to the longest sequence or
    `total_length`, and the lengths."""
    return _C._pad_packed_sequence(*sequence, batch_first, padding_value, total_length)


def pad_sequence(sequences: Tensor | Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:
    """One batch of `sequences`, [N, L, …] if `batch_first`, filled up with `padding_value` at the side `padding_side`,
    "right" or "left"."""
    if padding_side == "left":
        flipped = pad_sequence([s.flip(0) for s in sequences], batch_first, padding_value)
        return flipped.flip(1 if batch_first else 0)
    return _C.pad_sequence(list(sequences), batch_first, float(padding_value))


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of `lengths` of the padded batch `padded_sequences`, [N, L, …] if `batch_first`."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(rows, lengths)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs a list of `sequences`; with `enforce_sorted` their lengths must fall."""
    lengths = [len(s) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list of sequences that `packed_sequences` holds."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths.tolist(), batch_first=True)
