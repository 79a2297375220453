"""Compares gradients with finite differences."""
import itertools

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
    target = inputs[which].detach()  # an alias: the same memory, outside of the graph
    if any(size > 1 and stride == 0 for size, stride in zip(target.shape, target.stride())):
        raise ValueError("gradcheck: elements of an input share memory, as those of an expanded tensor do; clone it")
    rows = []
    for index in itertools.product(*map(range, target.shape)):
        before = target[index].item()
        values = []
        for step in (eps, -eps):
            target[index] = before + step
            values.append([o.detach().clone().reshape(-1) for o in _outputs(func, inputs)])
        target[index] = before
        rows.append([(a - b) / (2 * eps) for a, b in zip(*values)])
    return rows


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
              check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True, fast_mode=False,
              masked=None):
    """True if the gradients of func agree with finite differences; use float64 inputs.

    All elements are compared, with fast_mode too; undefined gradients are not tried. check_batched_grad asks for the
    gradients of several cotangents at once, and check_forward_ad compares tangents in a random direction.
    """
    if masked:
        raise NotImplementedError("gradcheck: masked=True is not supported")
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, "
                         "but none of the them have requires_grad=True.")
    try:
        for which in wanted:
            if check_backward_ad:
                _compare(func, inputs, which, (eps, atol, rtol, nondet_tol), check_grad_dtypes)
            if check_forward_ad:
                _compare_tangents(func, inputs, which, (eps, atol, rtol))
        if check_batched_grad:
            _compare_batches(func, inputs, wanted, (atol, rtol))
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _compare(func, inputs, which, tolerances, check_grad_dtypes):
    eps, atol, rtol, nondet_tol = tolerances
    numeric = _numeric(func, inputs, which, eps)  # recorded too: func may ask for gradients itself
    outputs = [o for o in _outputs(func, inputs)]
    for j, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        flat = output.reshape(-1)
        one = _C.ones_like(flat[0]) if flat.numel() else None
        for k in range(flat.numel()):
            def gradient_of_one():
                return _C._grad([flat[k]], [inputs[which]], [one], True, False, True)[0]
            gradient = gradient_of_one()
            _check_gradient(gradient, gradient_of_one, inputs[which], nondet_tol, check_grad_dtypes)
            analytic = _C.zeros_like(inputs[which]) if gradient is None else gradient
            expected = _C.stack([row[j][k] for row in numeric]) if numeric else analytic.reshape(-1)
            if not _C.allclose(analytic.reshape(-1), expected.to(analytic.dtype), rtol, atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {which},\n"
                    f"numerical:{expected}\nanalytical:{analytic.reshape(-1)}")


def _compare_tangents(func, inputs, which, tolerances):
    """Forward-mode derivatives of all outputs in a random direction of one input."""
    from . import forward_ad
    eps, atol, rtol = tolerances
    direction = _C.randn_like(inputs[which].detach())
    with forward_ad.dual_level():
        given = [forward_ad.make_dual(x.detach(), direction) if i == which else x for i, x in enumerate(inputs)]
        unpacked = [forward_ad.unpack_dual(o) for o in _outputs(func, given)]

    def moved(step):
        given = [x.detach() + step * direction if i == which else x for i, x in enumerate(inputs)]
        return [o.detach() for o in _outputs(func, given)]
    for j, (dual, above, below) in enumerate(zip(unpacked, moved(eps), moved(-eps))):
        expected = (above - below) / (2 * eps)
        tangent = _C.zeros_like(expected) if dual.tangent is None else dual.tangent.detach()
        if not _C.allclose(tangent, expected, rtol, atol):
            raise GradcheckError(f"Jacobian computed with forward mode mismatch for output {j} with respect to input {which},\n"
                                 f"numerical:{expected}\nanalytical:{tangent}")


def _compare_batches(func, inputs, wanted, tolerances):
    """Gradients of two cotangents at once, and of each alone."""
    from . import grad
    atol, rtol = tolerances
    asked = [inputs[i] for i in wanted]
    for output in _outputs(func, inputs):
        if not output.requires_grad:
            continue
        pair = _C.stack([_C.randn_like(output) for _ in range(2)])
        together = grad([output], asked, [pair], True, allow_unused=True, is_grads_batched=True)
        for k in range(2):
            for whole, alone in zip(together, grad([output], asked, [pair[k]], True, allow_unused=True)):
                if alone is not None and not _C.allclose(whole[k], alone, rtol, atol):
                    raise GradcheckError("gradcheck or gradgradcheck failed while testing batched gradient computation")


def _check_gradient(gradient, again, input, nondet_tol, check_grad_dtypes):
    """Raises if the gradient has another dtype than its input, or differs when it is computed a second time."""
    if gradient is None:
        return
    if check_grad_dtypes and gradient.dtype is not input.dtype:
        raise GradcheckError(f"the gradient is {gradient.dtype}, and its input {input.dtype}")
    if not _C.allclose(gradient, again(), 0.0, nondet_tol, True):
        raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output "
                             "multiple times gives different values, although analytical gradient matches numerical "
                             f"gradient. The tolerance for nondeterminism was {nondet_tol}.")


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True, check_fwd_over_rev=False, check_rev_over_rev=True, **options):
    """The same for the gradients of the gradients; `options` are those of gradcheck. Tangents are computed by reverse mode,
    so `check_fwd_over_rev` asks for the same as `check_rev_over_rev`."""
    if gen_non_contig_grad_outputs:
        raise NotImplementedError("gradgradcheck: gen_non_contig_grad_outputs=True is not supported")
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
                     raise_exception=raise_exception, check_backward_ad=check_fwd_over_rev or check_rev_over_rev, **options)
