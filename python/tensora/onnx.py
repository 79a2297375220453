"""There is no ONNX export; a program that imports this module and does not export anything runs."""


def export(*args, **kwargs):
    raise NotImplementedError("onnx.export: there is no ONNX export; save the state_dict() as safetensors")
