"""Memory that processes share: anonymous files, whose descriptors travel to processes that are started."""
import mmap
import os
import weakref

from . import _C
from ._C import Tensor


class _Memory(mmap.mmap):
    """A mapped file without a name; the mapping lives as long as a tensor on it."""
    file = -1

    def __del__(self):
        if self.file >= 0:
            os.close(self.file)


_known = weakref.WeakValueDictionary()  # by address, those of this process


def _mapped(file, size):
    """A tensor of bytes over the file, which it owns from now on."""
    memory = _Memory(file, size)
    memory.file = file
    bytes_ = _C._share(memory)
    _known[_C._storage_address(bytes_)] = memory
    return bytes_


def memory_of(tensor):
    """The shared memory that the tensor lies in; None if it is private."""
    return None if tensor.numel() == 0 else _known.get(_C._storage_address(tensor))


def moved(tensor):
    """A copy of the tensor in shared memory, outside of the graph."""
    if tensor.is_quantized or tensor.is_meta:
        raise RuntimeError(f"share_memory_: tensors of {tensor.dtype} on {tensor.device} cannot be shared")
    if tensor.numel() == 0:
        return tensor.detach()
    bytes_ = _C._storage_bytes(tensor)
    file = os.memfd_create("tensora")
    os.ftruncate(file, bytes_.numel())
    shared = _mapped(file, bytes_.numel())
    shared.copy_(bytes_)
    return _C._on_storage(shared, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())


def _opened(cls, descriptor, size, identity, view, requires_grad, attributes):
    """Runs in the process that gets the tensor."""
    from ._tensor import _as_class
    file = descriptor.detach()
    memory = _received.get(identity)
    if memory is None:
        bytes_ = _mapped(file, size)
        _received[identity] = memory_of(bytes_)
    else:
        os.close(file)
        bytes_ = _C._share(memory)
    return _as_class(cls, _C._on_storage(bytes_, *view), requires_grad, attributes)


_received = weakref.WeakValueDictionary()  # by the file, so that tensors over one memory share it here too


def _sent(tensor):
    """How multiprocessing pickles a tensor: shared memory by its descriptor, private memory by value."""
    memory = memory_of(tensor)
    if memory is None:
        return tensor.__reduce_ex__(2)
    from multiprocessing import reduction
    status = os.fstat(memory.file)
    view = tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    return _opened, (type(tensor), reduction.DupFd(memory.file), len(memory), (status.st_dev, status.st_ino), view,
                     tensor.requires_grad, dict(tensor.__dict__))


def register():
    """Makes processes of `multiprocessing` share what is shared."""
    from multiprocessing.reduction import ForkingPickler
    from .nn.parameter import Buffer, Parameter
    for cls in (Tensor, Parameter, Buffer):
        ForkingPickler.register(cls, _sent)
