"""Starting values of parameters; the C++ functions."""
from .. import _C

globals().update({name: value for name, value in vars(_C.init).items() if not name.startswith("__")})
uniform, normal, constant = _C.init.uniform_, _C.init.normal_, _C.init.constant_
xavier_uniform, xavier_normal = _C.init.xavier_uniform_, _C.init.xavier_normal_
kaiming_uniform, kaiming_normal = _C.init.kaiming_uniform_, _C.init.kaiming_normal_
orthogonal = _C.init.orthogonal_


def _calculate_correct_fan(tensor, mode):
    fans = _C.init._calculate_fan_in_and_fan_out(tensor)
    return fans[0] if mode == "fan_in" else fans[1]
