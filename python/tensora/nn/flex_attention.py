"""Attention whose scores and mask are functions of positions. It is computed whole: the scores take memory for every pair
of positions, and the blocks of a BlockMask say what is masked, not what is skipped."""
import math
from typing import Callable

from .. import _C

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_score_mod_signature = Callable[[_C.Tensor, _C.Tensor, _C.Tensor, _C.Tensor, _C.Tensor], _C.Tensor]  # for annotations
_mask_mod_signature = Callable[[_C.Tensor, _C.Tensor, _C.Tensor, _C.Tensor], _C.Tensor]


def noop_mask(batch, head, token_q, token_kv):
    """A mask function that masks nothing."""
    del head, token_q, token_kv
    return _C.ones_like(batch, dtype=_C.bool)


def _joined(name, operator, start, mask_mods):
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask_mod(b, h, q_idx, kv_idx):
        result = start
        for mod in mask_mods:
            found = mod(b, h, q_idx, kv_idx)
            result = found if result is None else operator(result, found)
        return result
    mask_mod.__name__ = name
    return mask_mod


def and_masks(*mask_mods):
    """A mask function: what all of these keep."""
    return _joined("and_mask", lambda a, b: a & b, None if mask_mods else True, mask_mods)


def or_masks(*mask_mods):
    """A mask function: what one of these keeps."""
    return _joined("or_mask", lambda a, b: a | b, None if mask_mods else False, mask_mods)


def _positions(B, H, Q_LEN, KV_LEN, device):
    """(b, h, q, kv): indices that broadcast to [B, H, Q_LEN, KV_LEN]."""
    shapes = ((B, 1, 1, 1), (1, H, 1, 1), (1, 1, Q_LEN, 1), (1, 1, 1, KV_LEN))
    return [_C.arange(size, device=device).view(shape) for size, shape in zip((B, H, Q_LEN, KV_LEN), shapes)]


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """The bools [B, H, Q_LEN, KV_LEN] of a mask function; those of a function of scores are the scores of zeros."""
    import inspect
    where = _positions(B or 1, H or 1, Q_LEN, KV_LEN, device)
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    if len(inspect.signature(mod_fn).parameters) == 5:
        return mod_fn(_C.zeros(shape, device=device), *where).broadcast_to(shape)
    found = mod_fn(*where)
    return (found if isinstance(found, _C.Tensor) else _C.tensor(found, device=device)).broadcast_to(shape)


def _pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


class BlockMask:
    """A mask function, and which blocks of queries and keys it keeps in part and in whole."""

    def __init__(self, partial, full, BLOCK_SIZE, mask_mod, seq_lengths):
        self._partial, self._full = partial, full  # bools [B, H, blocks of queries, blocks of keys]
        self.BLOCK_SIZE, self.mask_mod, self.seq_lengths = _pair(BLOCK_SIZE), mask_mod, tuple(seq_lengths)

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
                       BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, mask_mod=None, seq_lengths=None):
        """From the numbers of the blocks of keys that each block of queries sees."""
        size = _pair(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        partial = _dense(kv_num_blocks, kv_indices)
        full = _C.zeros_like(partial) if full_kv_indices is None else _dense(full_kv_num_blocks, full_kv_indices)
        return cls(partial, full, size, mask_mod or noop_mask, seq_lengths)

    kv_num_blocks = property(lambda self: self._partial.sum(-1).int())
    kv_indices = property(lambda self: _ordered(self._partial))
    full_kv_num_blocks = property(lambda self: self._full.sum(-1).int())
    full_kv_indices = property(lambda self: _ordered(self._full))
    q_num_blocks = property(lambda self: self._partial.mT.sum(-1).int())
    q_indices = property(lambda self: _ordered(self._partial.mT))
    shape = property(lambda self: tuple(self._partial.shape[:2]) + self.seq_lengths)

    def __getitem__(self, index):
        """The mask of some batches, heads and blocks of queries; the dims stay, and its mask function has to be set."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) > 3:
            raise IndexError(f"BlockMask: expected up to three indices (batch, head, block of queries), got {len(index)}")
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        partial, full = self._partial, self._full
        for dim, i in enumerate(index):
            where = (slice(None),) * dim + (i,)
            partial, full = partial[where], full[where]
        return BlockMask(partial, full, self.BLOCK_SIZE, None, self.seq_lengths)

    def to_dense(self):
        """Which blocks are seen: [B, H, blocks of queries, blocks of keys]."""
        return (self._partial | self._full).int()

    def numel(self):
        """How many pairs of positions the mask covers."""
        return math.prod(self.shape)

    def sparsity(self):
        """The percentage of blocks that nothing of is seen."""
        return 100 * (1 - self.to_dense().float().mean().item())

    def to(self, device):
        """The mask on another device; tensors of its function stay where they are."""
        return BlockMask(self._partial.to(device), self._full.to(device), self.BLOCK_SIZE, self.mask_mod, self.seq_lengths)

    def _kept(self, b, h, q, kv):
        """Bools for pairs of positions."""
        rows, columns = q // self.BLOCK_SIZE[0], kv // self.BLOCK_SIZE[1]
        counts = self._partial.shape
        for name, blocks, count in (("queries", rows, counts[2]), ("keys", columns, counts[3])):
            if blocks.numel() and int(blocks.max()) >= count:
                raise ValueError(f"flex_attention: block_mask covers {count} blocks of {name}, got more positions than that")
        where = (b % counts[0], h % counts[1], rows, columns)
        if self.mask_mod is None:
            raise ValueError("flex_attention: block_mask has no mask_mod; set it after indexing a BlockMask")
        return self._full[where] | (self._partial[where] & self.mask_mod(b, h, q, kv))

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _ordered(blocks):
    """For each row the numbers of the blocks that are seen, and then those of the others."""
    return (~blocks).int().argsort(dim=-1, stable=True).int()


def _dense(counts, indices):
    columns = indices.shape[-1]
    named = _C.arange(columns, device=indices.device) < counts.unsqueeze(-1)
    return _C.zeros(indices.shape, dtype=_C.bool, device=indices.device).scatter(-1, indices.long(), named)


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile=False):
    """The blocks of a mask function; `_compile` chooses how PyTorch computes them."""
    rows, columns = _pair(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    padded = _C.pad(mask.int(), [0, -KV_LEN % columns, 0, -Q_LEN % rows])
    blocks = padded.reshape(padded.shape[:2] + (padded.shape[2] // rows, rows, padded.shape[3] // columns, columns))
    seen = blocks.sum((3, 5))
    full = seen == rows * columns
    return BlockMask((seen > 0) & ~full, full, (rows, columns), mask_mod, (Q_LEN, KV_LEN))


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                   kernel_options=None, *, return_aux=None):
    """softmax(score_mod(query keyᵀ · scale)) value, over the pairs that block_mask keeps; rows that see nothing are zeros.

    `return_lse` also gives the logarithm of the sum of the exponentials. `kernel_options` chooses between PyTorch's kernels.
    """
    if return_aux is not None:
        raise NotImplementedError("flex_attention: return_aux is not supported; use return_lse=True")
    heads, kv_heads = query.shape[-3], key.shape[-3]
    if heads != kv_heads:
        if not enable_gqa:
            raise ValueError(f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
                             f"Hkv={kv_heads}. Try setting enable_gqa=True for GQA.")
        if heads % kv_heads:
            raise ValueError(f"flex_attention: {heads} heads of queries are no multiple of {kv_heads} heads of keys")
        key, value = (x.repeat_interleave(heads // kv_heads, -3) for x in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    wide = _C.float64 if query.dtype is _C.float64 else _C.float32
    scores = (query @ key.mT).to(wide) * scale
    where = _positions(query.shape[0], heads, query.shape[-2], key.shape[-2], query.device)
    if score_mod is not None:
        scores = score_mod(scores, *where)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask._kept(*where), -math.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - lse.masked_fill(lse == -math.inf, 0).unsqueeze(-1)).exp()
    result = (weights.to(value.dtype) @ value).to(query.dtype)
    return (result, lse) if return_lse else result
