"""Forward-mode differentiation does not exist here; functional.jvp works by reverse mode twice."""


def dual_level(*args, **kwargs):
    raise NotImplementedError("forward-mode differentiation: use tensora.autograd.functional.jvp")


make_dual = unpack_dual = dual_level
