"""Automatic mixed precision."""
import functools

from . import _C
from ._C import Tensor
from ._modes import autocast as _autocast


class autocast(_autocast):
    """tensora.amp.autocast("cuda"), or the older autocast() for the GPU."""

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        if isinstance(device_type, bool):  # torch.cuda.amp.autocast(enabled)
            device_type, enabled = "cuda", device_type
        super().__init__(device_type, dtype, enabled, cache_enabled)


def _inner(optimizer):
    """What the scaler steps: the C++ optimizer, or one that calls `optimizer.step` where that does more than the C++ step."""
    from .optim import Optimizer
    step = vars(optimizer).get("step")  # a learning-rate schedule marks calls; whatever else is there has to be called
    own = type(optimizer).step is Optimizer.step and (step is None or hasattr(step, "_wrapped_by_lr_sched"))
    if own and not optimizer._has_step_hooks() and optimizer._optimizer is not None:
        optimizer._opt_called = True
        return optimizer._optimizer
    known = vars(optimizer).get("_for_scaler")
    if known is None:
        known = optimizer._for_scaler = _C._PythonOptimizer(optimizer)
    return known


class GradScaler:
    """Keeps small gradients from vanishing in float16: scales the loss, and unscales the gradients."""

    def __init__(self, device="cuda", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5,
                 growth_interval=2000, enabled=True):
        if not isinstance(device, (str, _C.device)):  # torch.cuda.amp.GradScaler(init_scale)
            init_scale, device = device, "cuda"
        if str(device).startswith("cuda") and not _C._is_available("cuda"):
            enabled = False
        self._scaler = _C._GradScaler(float(init_scale), growth_factor, backoff_factor, growth_interval, enabled)

    def scale(self, outputs):
        """The loss times the scale, for backward."""
        if not self.is_enabled():
            return outputs
        if isinstance(outputs, Tensor):
            return self._scaler.scale(outputs)
        return type(outputs)(self.scale(o) for o in outputs)

    def unscale_(self, optimizer):
        """Divides the gradients by the scale, for code that looks at them before the step."""
        if self.is_enabled():
            self._scaler.unscale_(_inner(optimizer))

    def step(self, optimizer, *args, **kwargs):
        """The optimizer's step, unless a gradient is infinite or NaN."""
        if not self.is_enabled():
            return optimizer.step(*args, **kwargs)
        if args or kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        inner = _inner(optimizer)
        if inner is getattr(optimizer, "_optimizer", None):
            optimizer._push()
        self._scaler.step(inner)

    def update(self, new_scale=None):
        """Lowers or raises the scale, at the end of an iteration."""
        if self.is_enabled():
            self._scaler.update() if new_scale is None else self._scaler.update(float(new_scale))

    _enabled = property(lambda self: self._scaler.is_enabled())
    _scale = property(lambda self: _C.tensor(self._scaler.get_scale()) if self.is_enabled() else None)

    def __getattr__(self, name):
        if name == "_scaler":
            raise AttributeError(name)
        return getattr(self._scaler, name)


def _cast(value, device_type, dtype):
    """Floating tensors of the device as `dtype`, in containers too; float64 stays."""
    if isinstance(value, Tensor):
        wanted = value.is_floating_point() and value.device.type == device_type and value.dtype is not _C.float64
        return value.to(dtype) if wanted else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def custom_fwd(fwd=None, *, device_type="cuda", cast_inputs=None):
    """Decorates the forward of a Function: with `cast_inputs`, autocast casts its inputs to that dtype and is off in it."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def run(ctx, *args, **kwargs):
        enabled = _C._is_autocast_enabled(device_type)
        ctx._autocast = enabled and cast_inputs is None, _C._autocast_dtype(device_type)
        if cast_inputs is None or not enabled:
            return fwd(ctx, *args, **kwargs)
        with _autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))
    return run


def custom_bwd(bwd=None, *, device_type="cuda"):
    """Decorates the backward of such a Function: it runs with autocast as it was in forward."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def run(ctx, *args, **kwargs):
        enabled, dtype = ctx._autocast
        with _autocast(device_type, dtype=dtype, enabled=enabled):
            return bwd(ctx, *args, **kwargs)
    return run


def is_autocast_available(device_type):
    return device_type in ("cpu", "cuda")
