"""The old names of typed tensors: FloatTensor(2, 3) and the like."""
from . import _C


def _typed(name, dtype):
    class Meta(type):
        def __instancecheck__(cls, object):
            return isinstance(object, _C.Tensor) and object.dtype is dtype

    def make(cls, *args, device=None):
        if len(args) == 1 and isinstance(args[0], _C.Size):
            return _C.empty(args[0], dtype=dtype, device=device)
        if len(args) == 1 and not isinstance(args[0], int):
            return _C.tensor(args[0], dtype=dtype, device=device)
        return _C.empty(args or (0,), dtype=dtype, device=device)

    return Meta(name, (), {"__new__": make, "dtype": dtype, "__module__": "tensora",
                           "__doc__": f"Makes a tensor of {dtype}."})


FloatTensor = _typed("FloatTensor", _C.float32)
DoubleTensor = _typed("DoubleTensor", _C.float64)
HalfTensor = _typed("HalfTensor", _C.float16)
BFloat16Tensor = _typed("BFloat16Tensor", _C.bfloat16)
LongTensor = _typed("LongTensor", _C.int64)
IntTensor = _typed("IntTensor", _C.int32)
ShortTensor = _typed("ShortTensor", _C.int16)
CharTensor = _typed("CharTensor", _C.int8)
ByteTensor = _typed("ByteTensor", _C.uint8)
BoolTensor = _typed("BoolTensor", _C.bool)
