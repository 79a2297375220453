"""torch.distributed.tensor: the placements, which are descriptions; distributed tensors themselves are refused."""
from dataclasses import dataclass

from . import REFUSED, refused


class Placement:
    """Where the parts of a tensor are."""

    def is_shard(self, dim=None):
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self):
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None):
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """A part of dim `dim` on each rank."""
    dim: int = 0


@dataclass(frozen=True)
class Replicate(Placement):
    """All of it on each rank."""


@dataclass(frozen=True)
class Partial(Placement):
    """A term of the sum on each rank."""
    reduce_op: str = "sum"


@dataclass(frozen=True)
class _StridedShard(Shard):
    split_factor: int = 1


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return refused(f"torch.distributed.tensor.{name}", REFUSED["torch.distributed.tensor"])


DTensor = __getattr__("DTensor")
