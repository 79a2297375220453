"""The memory behind a tensor, as far as programs ask about it."""
from . import _C


class UntypedStorage:
    """The bytes that tensors lie in; `x.untyped_storage()` gives one."""

    def __init__(self, tensor):
        self._tensor = tensor

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """The first bytes of a mapped file; what is written to them reaches the file only if it is shared."""
        import mmap
        with open(filename, "r+b" if shared else "rb") as file:
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            return cls(_C._share(mmap.mmap(file.fileno(), nbytes, access=access)))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return UntypedStorage(self._as_bytes()[index])
        return self._as_bytes()[index].item()

    def __len__(self):
        return self.nbytes()

    def _as_bytes(self):
        tensor = self._tensor
        return tensor if tensor.dtype is _C.uint8 and tensor.dim() == 1 else _C._storage_bytes(tensor)

    def data_ptr(self):
        return self._tensor.data_ptr() - self._tensor.storage_offset() * self._tensor.element_size()

    def nbytes(self):
        return self._as_bytes().numel()

    size = nbytes

    def tolist(self):
        return self._as_bytes().tolist()

    @property
    def device(self):
        return self._tensor.device

    def untyped(self):
        return self


class TypedStorage(UntypedStorage):
    """The elements that tensors of one dtype lie in; `x.storage()` gives one."""

    dtype = property(lambda self: self._tensor.dtype)

    def _as_elements(self):
        tensor, count = self._tensor, self.nbytes() // self._tensor.itemsize
        return _C._on_storage(self._as_bytes(), tensor.dtype, (count,), (1,), 0) if count else tensor.reshape(0)

    def __getitem__(self, index):
        found = self._as_elements()[index]
        return TypedStorage(found) if isinstance(index, slice) else found.item()

    def __len__(self):
        return self.size()

    def size(self):
        return self._as_elements().numel()

    def tolist(self):
        return self._as_elements().tolist()

    def untyped(self):
        return UntypedStorage(self._tensor)
