"""Starting values of parameters; the C++ functions."""
import functools
import math

from .. import _C
from .._modes import no_grad

globals().update({name: value for name, value in vars(_C.init).items() if not name.startswith("__")})


def _with_generator(name):
    """A function of random numbers, which takes `generator` too."""
    plain = getattr(_C.init, name)

    @functools.wraps(plain, assigned=("__name__", "__doc__"))
    def fill(*args, generator=None, **kwargs):
        if generator is None:
            return plain(*args, **kwargs)
        default = _C.default_generator
        before = default.get_state()
        default.set_state(generator.get_state())
        try:
            return plain(*args, **kwargs)
        finally:
            generator.set_state(default.get_state())
            default.set_state(before)
    return fill


for _name in ("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
              "kaiming_normal_", "orthogonal_", "sparse_"):
    globals()[_name] = _with_generator(_name)
    globals()[_name[:-1]] = globals()[_name]  # older names
constant = _C.init.constant_

_by_inversion = trunc_normal_  # noqa: F821 - one of the functions above


@functools.wraps(_by_inversion)
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    numbers_of_pytorch = getattr(_C, "_has_pytorch_numbers", False) and tensor.is_cpu
    if not numbers_of_pytorch or std <= 0 or a >= b:
        return _by_inversion(tensor, mean, std, a, b, generator=generator)
    return _by_rejection(tensor, mean, std, a, b, {} if generator is None else {"generator": generator})


def _by_rejection(tensor, mean, std, a, b, extras):
    """The way in which PyTorch draws: normal numbers, or uniform ones if most normal numbers would be rejected, until all
    are accepted."""
    with no_grad():
        below = [(1 + math.erf((x - mean) / std / math.sqrt(2))) / 2 for x in (a, b)]
        result = tensor.detach().clone()
        pending = _C.ones_like(result, dtype=_C.bool)
        peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
        low, high = (tensor.new_tensor(x).item() for x in (a, b))
        while pending.any():
            if below[1] - below[0] > 0.3:
                drawn = _C.empty_like(result).normal_(mean, std, **extras)
                result = _C.where(pending, drawn, result)
                pending = (result < low) | (result > high)
            else:
                drawn = _C.empty_like(result).uniform_(a, b, **extras)
                result = _C.where(pending, drawn, result)
                log_density = ((drawn - mean) / std) ** 2 * -0.5 - peak
                pending = pending & (_C.empty_like(result).uniform_(**extras).log() > log_density)
        return tensor.copy_(result)


trunc_normal = trunc_normal_


def _calculate_correct_fan(tensor, mode):
    fans = _C.init._calculate_fan_in_and_fan_out(tensor)
    return fans[0] if mode == "fan_in" else fans[1]
