"""What this implementation of the standard has."""
import tensora.array_api as xp

from .. import _C, cuda


class Info:
    """What this implementation of the standard has."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 16}

    def default_device(self):
        return _C.device("cpu")

    def default_dtypes(self, *, device=None):
        real = _C.get_default_dtype()
        return {"real floating": real, "complex floating": _C.complex128 if real is _C.float64 else _C.complex64,
                "integral": _C.int64, "indexing": _C.int64}

    def dtypes(self, *, device=None, kind=None):
        names = ("bool", "int8", "int16", "int32", "int64", "uint8", "float32", "float64", "complex64", "complex128")
        return {name: getattr(xp, name) for name in names if kind is None or xp.isdtype(getattr(xp, name), kind)}

    def devices(self):
        return [_C.device("cpu")] + [_C.device("cuda", i) for i in range(cuda.device_count())]
