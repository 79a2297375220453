"""Starting values of parameters; the C++ functions."""
import functools

from .. import _C

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


def _calculate_correct_fan(tensor, mode):
    fans = _C.init._calculate_fan_in_and_fan_out(tensor)
    return fans[0] if mode == "fan_in" else fans[1]
