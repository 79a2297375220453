"""Reads what PyTorch's torch.save wrote of objects that are not tensors, numbers, texts, lists and dicts: for trusted files.

Such a file is a zip archive with a pickle and the bytes of each storage. Classes of torch are those of tensora.
"""
import importlib
import pickle
import zipfile

from . import _C

_STORAGES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
             "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
             "ComplexDouble": "complex128", "Untyped": "uint8"}


class _Kind:
    """The type of a storage: the dtype of its elements."""

    def __init__(self, dtype):
        self.dtype = dtype


class _Bytes:
    """A storage: its bytes, and the dtype of the tensors on it."""

    def __init__(self, tensor, dtype):
        self.tensor, self.dtype = tensor, dtype


def _tensor(storage, offset, size, stride, requires_grad=False, backward_hooks=None, metadata=None):
    del backward_hooks, metadata  # of tensors that were saved with hooks or as other views
    if storage.tensor is None:
        made = _C.empty(tuple(size), dtype=storage.dtype)
    else:
        made = _C._on_storage(storage.tensor, storage.dtype, tuple(size), tuple(stride), offset)
    return made.requires_grad_() if requires_grad else made


def _parameter(data, requires_grad=True, backward_hooks=None):
    from .nn import Parameter
    del backward_hooks
    return Parameter(data, requires_grad)


_FUNCTIONS = {"_rebuild_tensor_v2": _tensor, "_rebuild_tensor": _tensor, "_rebuild_parameter": _parameter}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, archive, prefix):
        super().__init__(file)
        self._archive, self._prefix, self._known = archive, prefix, {}

    def find_class(self, module, name):
        if module in ("torch", "torch.storage") and name.endswith("Storage"):
            return _Kind(_C._dtype(_STORAGES[name.removesuffix("Storage")]))
        if module == "torch._utils" and name in _FUNCTIONS:
            return _FUNCTIONS[name]
        if module == "torch" or module.startswith("torch."):
            module = module.replace("torch", "tensora", 1)
            found = getattr(importlib.import_module("tensora"), name, None) if module == "tensora" else None
            if found is not None:
                return found
        return super().find_class(module, name)

    def persistent_load(self, pid):
        what, kind, key, _, count = pid
        if what != "storage":
            raise pickle.UnpicklingError(f"load: unknown part {what!r} of a PyTorch file")
        if key not in self._known:
            content = self._archive.read(f"{self._prefix}/data/{key}")
            memory = _C._share(bytearray(content)) if count else None
            self._known[key] = _Bytes(memory, kind.dtype)
        return self._known[key]


def is_archive(path):
    """Whether a file is one of torch.save's archives."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/data.pkl") for name in archive.namelist())


def load(path):
    """The object in the file. Runs what its pickle names."""
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        with archive.open(name) as file:
            return _Unpickler(file, archive, name.rpartition("/")[0]).load()
