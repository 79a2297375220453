"""There is no ONNX export; a program that imports this module and does not export anything runs."""
_WHY = "there is no ONNX export; save the state_dict() as safetensors"
symbolics = {}  # what register_custom_op_symbolic was given, by name


def export(*args, **kwargs):
    raise NotImplementedError(f"onnx.export: {_WHY}")


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Keeps how an op would be exported."""
    symbolics[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    symbolics.pop((symbolic_name, opset_version), None)


def is_in_onnx_export():
    """Whether a module is being exported: never."""
    return False


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "symbolic_helper":
        from ._compat import onnx_symbolic_helper
        return onnx_symbolic_helper
    from ._compat import refused
    return refused(f"torch.onnx.{name}", _WHY)
