"""Automatic mixed precision."""
from . import _C
from ._C import Tensor
from ._modes import autocast as _autocast


class autocast(_autocast):
    """tensora.amp.autocast("cuda"), or the older autocast() for the GPU."""

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        if isinstance(device_type, bool):  # torch.cuda.amp.autocast(enabled)
            device_type, enabled = "cuda", device_type
        super().__init__(device_type, dtype, enabled, cache_enabled)


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
            self._scaler.unscale_(optimizer._optimizer)

    def step(self, optimizer, *args, **kwargs):
        """The optimizer's step, unless a gradient is infinite or NaN."""
        if not self.is_enabled():
            return optimizer.step(*args, **kwargs)
        optimizer._push()
        self._scaler.step(optimizer._optimizer)

    def update(self, new_scale=None):
        """Lowers or raises the scale, at the end of an iteration."""
        if self.is_enabled():
            self._scaler.update() if new_scale is None else self._scaler.update(float(new_scale))

    def __getattr__(self, name):
        if name == "_scaler":
            raise AttributeError(name)
        return getattr(self._scaler, name)


def custom_fwd(function=None, **_):
    return function if function is not None else (lambda f: f)


custom_bwd = custom_fwd


def is_autocast_available(device_type):
    return device_type in ("cpu", "cuda")
