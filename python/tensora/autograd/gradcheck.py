"""Compares gradients with finite differences."""
from .. import _C
from .._C import Tensor


class GradcheckError(RuntimeError):
    """The gradients differ."""


def _tensors(values):
    return [v for v in values if isinstance(v, Tensor)]


def _outputs(func, inputs):
    result = func(*inputs)
    return _tensors([result] if isinstance(result, Tensor) else result)


def _numeric(func, inputs, which, eps):
    """One row per element of the input, one list of flattened outputs each."""
    target = inputs[which].detach()
    flat = target.reshape(-1)
    if flat.numel() and flat.data_ptr() != target.data_ptr():
        raise ValueError("gradcheck: inputs must be contiguous")
    rows = []
    for i in range(flat.numel()):
        before = flat[i].item()
        values = []
        for step in (eps, -eps):
            flat[i] = before + step  # of the detached alias: the same memory, outside of the graph
            values.append([o.detach().clone().reshape(-1) for o in _outputs(func, inputs)])
        flat[i] = before
        rows.append([(a - b) / (2 * eps) for a, b in zip(*values)])
    return rows


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False, fast_mode=False, **_):
    """True if the gradients of func agree with finite differences; use float64 inputs."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, "
                         "but none of the them have requires_grad=True.")
    try:
        for which in wanted:
            _compare(func, inputs, which, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _compare(func, inputs, which, eps, atol, rtol):
    numeric = _numeric(func, inputs, which, eps)  # recorded too: func may ask for gradients itself
    outputs = [o for o in _outputs(func, inputs)]
    for j, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        flat = output.reshape(-1)
        for k in range(flat.numel()):
            gradient = _C._grad([flat[k]], [inputs[which]], [None], True, False, True)[0]
            analytic = _C.zeros_like(inputs[which]) if gradient is None else gradient
            expected = _C.stack([row[j][k] for row in numeric]) if numeric else analytic.reshape(-1)
            if not _C.allclose(analytic.reshape(-1), expected.to(analytic.dtype), rtol, atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {which},\n"
                    f"numerical:{expected}\nanalytical:{analytic.reshape(-1)}")


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True, **options):
    """The same for the gradients of the gradients."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    count = len(inputs)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if grad_outputs is None:
        grad_outputs = [_C.randn_like(o).requires_grad_() for o in _outputs(func, inputs) if o.requires_grad]
    elif isinstance(grad_outputs, Tensor):
        grad_outputs = [grad_outputs]

    def gradients(*args):
        outputs = [o for o in _outputs(func, args[:count]) if o.requires_grad]
        found = _C._grad(outputs, [args[i] for i in wanted], list(args[count:]), True, True, True)
        return tuple(g for g in found if g is not None)
    return gradcheck(gradients, tuple(inputs) + tuple(grad_outputs), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception)
