"""PyTorch's files of objects that are more than tensors, numbers, texts, lists and dicts, which C++ reads and writes.

Such a file is a zip archive with a pickle and the bytes of each storage. Classes of torch are those of tensora.
"""
import collections
import importlib
import io
import os
import pickle
import zipfile

from . import _C, _careful_pickles

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
        if 0 not in tuple(size):
            raise pickle.UnpicklingError(f"load: a tensor of shape {tuple(size)} has no storage")
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


# ---- containers: without running anything ------------------------------------------------------------------

_CONTAINERS = {("collections", kind.__name__): kind for kind in (collections.OrderedDict, collections.Counter)}
_CONTAINERS |= {(module, kind.__name__): kind for module in ("builtins", "__builtin__") for kind in (set, frozenset, complex)}
_CONTAINERS[("torch", "Size")], _CONTAINERS[("torch", "device")] = _C.Size, _C.device


def _encoded(text, coding):
    """How protocol 2 writes bytes."""
    if coding != "latin1":
        raise pickle.UnpicklingError(f"load: unexpected encoding {coding!r}")
    return text.encode(coding)


class Refused(pickle.UnpicklingError, RuntimeError):
    """The file names something that a careful reader does not make, or is damaged."""


class _Careful(_Unpickler):
    """Makes tensors, containers and numbers only, and what the program declared safe."""

    def find_class(self, module, name):
        if (module, name) in _CONTAINERS:
            return _CONTAINERS[module, name]
        if (module, name) == ("_codecs", "encode"):
            return _encoded
        if module == "torch" and isinstance(getattr(_C, name, None), _C.dtype):
            return getattr(_C, name)
        if (module == "torch" and name.removesuffix("Storage") in _STORAGES) or (module == "torch._utils" and name in _FUNCTIONS):
            return super().find_class(module, name)
        from .serialization import allowed
        safe = allowed(module, name)
        if safe is not None:
            return safe
        raise pickle.UnpicklingError(f"load: this file names '{module}.{name}', and making it can run code; pass "
                                     "weights_only=False if you trust the file")


class _Leaf:
    """Stands for a tensor."""


class _Form(_Careful):
    """Makes containers of leaves, and reads no storage."""

    def find_class(self, module, name):
        found = super().find_class(module, name)
        return (lambda *args: _Leaf()) if module == "torch._utils" else found

    def persistent_load(self, pid):
        return None


class _Anything:
    """Stands for an object of a class that is refused."""

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __setstate__(self, state):
        """The state of no object."""

    append = extend = __setitem__ = __init__ = lambda self, *args, **kwargs: None


class _Names(_Form):
    """Notes the names that are refused, and makes nothing of them."""
    refused = ()

    def find_class(self, module, name):
        try:
            return super().find_class(module, name)
        except pickle.UnpicklingError:
            if f"{module}.{name}" not in self.refused:
                self.refused += (f"{module}.{name}",)
            return _Anything


def refused_names(path):
    """The full names in a file that _Careful refuses, each once."""
    readers = []

    def reader(*args):
        readers.append(_Names(*args))
        return readers[0]
    _opened(path, reader)
    return list(readers[0].refused)


def _filled(form, value):
    if isinstance(form, _Leaf):
        return value
    if isinstance(form, dict):
        for key in form:
            form[key] = _filled(form[key], value[key])
    elif isinstance(form, list):
        form[:] = [_filled(*pair) for pair in zip(form, value)]
    elif isinstance(form, tuple) and type(form) is tuple:
        return tuple(_filled(*pair) for pair in zip(form, value))
    return form


def in_containers(path, value):
    """What C++ read of the file as dicts and lists, in the tuples, OrderedDicts and sets of the file."""
    try:
        return _filled(_opened(path, _Form), value)
    except Exception:  # a file that C++ understands, and Python does not
        return value


# ---- writing -----------------------------------------------------------------------------------------------

class _Global:
    """A function or class of PyTorch, by its name."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):
        """The pickler asks whether it can be called."""


_NAMES = {_C._dtype(name): prefix for prefix, name in _STORAGES.items() if prefix != "Untyped"}
_TENSOR, _PARAMETER = _Global("torch._utils", "_rebuild_tensor_v2"), _Global("torch._utils", "_rebuild_parameter")


class _Pickler(pickle._Pickler):  # the one in Python, whose names can be PyTorch's
    def __init__(self, file):
        super().__init__(file, 2)
        self.storages = {}  # address: (key, bytes)

    def reducer_override(self, value):
        if isinstance(value, _C.Tensor):
            return self._tensor(value)
        if isinstance(value, _C.Size):
            return _Global("torch", "Size"), (tuple(value),)
        if isinstance(value, _C.device):
            return _Global("torch", "device"), (value.type,) if value.index is None else (value.type, value.index)
        if isinstance(value, (_C.dtype, _Global)):
            return ""
        return NotImplemented

    def _tensor(self, value):
        from .nn import Parameter
        if isinstance(value, Parameter):
            return _PARAMETER, (value.detach(), value.requires_grad, collections.OrderedDict())
        storage = _Bytes(value if value.numel() else None, value.dtype)
        return _TENSOR, (storage, value.storage_offset(), tuple(value.shape), tuple(value.stride()), value.requires_grad,
                         collections.OrderedDict())

    def persistent_id(self, value):
        if not isinstance(value, _Bytes):
            return None
        content = _C.empty(0, dtype=_C.uint8) if value.tensor is None else _C._storage_bytes(value.tensor)
        address = None if value.tensor is None else _C._storage_address(value.tensor)
        key, _ = self.storages.setdefault(address, (str(len(self.storages)), content))
        kind = _Global("torch", _NAMES[value.dtype] + "Storage")
        return "storage", kind, key, "cpu", content.numel() // value.dtype.itemsize

    def save_global(self, obj, name=None):
        if isinstance(obj, _C.dtype):
            obj = _Global(*str(obj).split("."))
        if not isinstance(obj, _Global):
            return super().save_global(obj, name)
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        return self.memoize(obj)


_ATOMS = (type(None), bool, int, float, str, complex, bytes, _C.dtype, _C.device, _C.Size)


def can_save(value):
    """Whether it consists of tensors on the host, numbers, texts and Python's containers."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind in (list, tuple, set, frozenset):
        return all(map(can_save, value))
    if kind in (dict, collections.OrderedDict, collections.Counter):
        return all(can_save(key) and can_save(item) for key, item in value.items())
    from .nn import Parameter
    return kind in (_C.Tensor, Parameter) and value.is_cpu and value.dtype in _NAMES and not value.__dict__


def save(value, path):
    """Writes the file, in place of one of this name once it is complete."""
    text = io.BytesIO()
    pickler, name = _Pickler(text), os.path.splitext(os.path.basename(path))[0] or "archive"
    pickler.dump(value)
    part = f"{path}.{os.getpid()}.part"
    try:
        with zipfile.ZipFile(part, "w") as archive:
            archive.writestr(f"{name}/data.pkl", text.getvalue())
            archive.writestr(f"{name}/byteorder", "little")
            for key, content in pickler.storages.values():
                with archive.open(f"{name}/data/{key}", "w", force_zip64=content.numel() >= 1 << 31) as file:
                    file.write(memoryview(content) if content.numel() else b"")
            archive.writestr(f"{name}/version", "3\n")
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def is_archive(path):
    """Whether a file is one of torch.save's archives."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/data.pkl") for name in archive.namelist())


def _opened(path, kind):
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise pickle.UnpicklingError("load: parts of this file are compressed, which PyTorch never does")
        if sum(entry.file_size for entry in archive.infolist()) > os.path.getsize(path):
            raise pickle.UnpicklingError("load: parts of this file overlap")
        content = archive.read(name)
        if kind is not _Unpickler:
            _careful_pickles.check(content, len(content))
        return kind(io.BytesIO(content), archive, name.rpartition("/")[0]).load()


def load(path, careful):
    """The object in the file. Runs what its pickle names, unless `careful`: then that may be containers and tensors."""
    return _opened(path, _Careful if careful else _Unpickler)
