"""torch.__future__: how Module.to and load_state_dict replace parameters. Here they keep the parameter and change its data,
which is what PyTorch does by default."""

_overwrites = _swaps = False


def _refuse(name, value):
    if value:
        raise NotImplementedError(f"torch.__future__.{name}(True) is not supported: conversions change the data of a parameter")


def set_overwrite_module_params_on_conversion(value):
    """Whether conversions of modules make new parameters: they do not."""
    _refuse("set_overwrite_module_params_on_conversion", value)


def get_overwrite_module_params_on_conversion():
    return _overwrites


def set_swap_module_params_on_conversion(value):
    """Whether conversions of modules swap parameters with new ones: they do not."""
    _refuse("set_swap_module_params_on_conversion", value)


def get_swap_module_params_on_conversion():
    return _swaps
