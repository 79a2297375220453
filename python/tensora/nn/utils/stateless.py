"""The older place of functional_call."""
import warnings

from ..._functional_call import functional_call as _functional_call, reparametrized as _reparametrize  # noqa: F401


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """tensora.func.functional_call, by its older name."""
    warnings.warn("`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
                  "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
                  FutureWarning, stacklevel=2)
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False):
    """A scope in which the module has other parameters and buffers; they are restored last in, first out."""
    del stack_weights
    return _reparametrize(module, parameters_and_buffers, tie_weights, strict)
