"""Pruning: parameters times masks. `weight` becomes weight_orig · weight_mask, computed before every forward."""
from abc import ABC, abstractmethod

from ... import _C


def _validate_pruning_amount_init(amount):
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0.0, 1.0] or a non-negative integer")


def _validate_pruning_amount(amount, tensor_size):
    if isinstance(amount, int) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount, tensor_size):
    return amount if isinstance(amount, int) else round(amount * tensor_size)


def _count(amount, size):
    """How many parameters to prune: a number of them, or a part."""
    _validate_pruning_amount_init(amount)
    _validate_pruning_amount(amount, size)
    return _compute_nparams_toprune(amount, size)


class BasePruningMethod(ABC):
    """The base: a subclass writes compute_mask."""
    PRUNING_TYPE = "unstructured"

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask of tensor `t`, of which `default_mask` is pruned already."""

    def apply_mask(self, module):
        """The parameter times its mask."""
        mask, original = getattr(module, self._tensor_name + "_mask"), getattr(module, self._tensor_name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes a parameter; what was pruned before stays so."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = [(key, hook) for key, hook in module._forward_pre_hooks.items()
                  if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]
        if before:
            container = PruningContainer()
            container._tensor_name = name
            for key, hook in before:
                del module._forward_pre_hooks[key]
                container._methods += hook._methods if isinstance(hook, PruningContainer) else [hook]
            container._methods.append(method)
            method = container
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}")
        if not before:
            del module._parameters[name]
            module.register_parameter(name + "_orig", original)
            default = _C.ones_like(original)
        else:
            default = getattr(module, name + "_mask").detach().clone()
        mask = method.compute_mask(scores.detach(), default.detach())
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """The tensor times the mask that this method computes."""
        scores = t if importance_scores is None else importance_scores
        default = _C.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default)

    def remove(self, module):
        """Makes the pruned parameter an ordinary one."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        original = module._parameters.pop(name + "_orig")
        del module._buffers[name + "_mask"]
        module.__dict__.pop(name, None)
        original.data = weight.data
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other."""

    def __init__(self, *args):
        self._methods = list(args)
        self._tensor_name = self._methods[0]._tensor_name if self._methods else None

    def add_pruning_method(self, method):
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name is not None and method._tensor_name != self._tensor_name:
            raise ValueError(f"Can only add pruning methods acting on the parameter named '{self._tensor_name}'")
        self._methods.append(method)

    def __len__(self):
        return len(self._methods)

    def __iter__(self):
        return iter(self._methods)

    def __getitem__(self, index):
        return self._methods[index]

    def compute_mask(self, t, default_mask):
        method, mask = self._methods[-1], default_mask.clone()
        if method.PRUNING_TYPE == "unstructured":
            chosen = mask == 1
            if bool(chosen.any()):
                mask[chosen] = method.compute_mask(t[chosen], mask[chosen]).to(mask.dtype)
            return mask
        if method.PRUNING_TYPE == "structured":
            dims = tuple(d for d in range(t.dim()) if d != method.dim % t.dim())
            kept = mask.sum(dims) != 0
            place = [slice(None)] * t.dim()
            place[method.dim] = kept
            part = method.compute_mask(t[tuple(place)], mask[tuple(place)])
            mask[tuple(place)] = part.to(mask.dtype)
            return mask
        return method.compute_mask(t, mask)


class Identity(BasePruningMethod):
    """Prunes nothing: makes a mask of ones."""

    def compute_mask(self, t, default_mask):
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes parameters at random."""

    def __init__(self, amount):
        _count(amount, 2 ** 62)
        self.amount = amount

    def _order(self, t):
        return _C.rand(t.numel(), device=t.device)

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.numel())
        mask = default_mask.clone()
        if count:
            smallest = _C.topk(self._order(t), count, largest=False).indices
            flat = mask.reshape(-1)
            flat[smallest] = 0
            mask = flat.reshape(t.shape)
        return mask


class L1Unstructured(RandomUnstructured):
    """Prunes the parameters with the smallest absolute values."""

    def _order(self, t):
        return t.abs().reshape(-1)


class RandomStructured(BasePruningMethod):
    """Prunes slices of a dim at random."""
    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        _count(amount, 2 ** 62)
        self.amount, self.dim = amount, dim

    def _order(self, t):
        return _C.rand(t.shape[self.dim], device=t.device)

    def compute_mask(self, t, default_mask):
        if t.dim() <= 1:
            raise ValueError("Structured pruning can only be applied to multidimensional tensors.")
        count = _count(self.amount, t.shape[self.dim])
        mask = default_mask.clone()
        if count:
            place = [slice(None)] * t.dim()
            place[self.dim] = _C.topk(self._order(t), count, largest=False).indices
            mask[tuple(place)] = 0
        return mask


class LnStructured(RandomStructured):
    """Prunes the slices of a dim with the smallest norms."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def _order(self, t):
        from ..._functions import norm
        return norm(t, self.n, tuple(d for d in range(t.dim()) if d != self.dim % t.dim()))


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask of the program."""
    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if self.mask.shape != t.shape:
            raise AssertionError(f"custom_from_mask: expected a mask of shape {t.shape}, got {self.mask.shape}")
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module, name):
    """Gives a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prunes `amount` parameters, a number or a part of them, at random."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prunes the parameters with the smallest absolute values, or scores."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prunes slices of a dim at random."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the slices of a dim with the smallest n-norms."""
    LnStructured.apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Prunes by a mask."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes several parameters [(module, name), …] as if they were one."""
    parameters, given = list(parameters), importance_scores or {}
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    scores = [given.get((module, name), getattr(module, name)) for module, name in parameters]
    masks = [getattr(module, name + "_mask", _C.ones_like(getattr(module, name))) for module, name in parameters]
    flat, default = (_C.cat([t.detach().reshape(-1) for t in tensors]) for tensors in (scores, masks))
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found {pruning_method}')
    container.add_pruning_method(method)
    mask, at = container.compute_mask(flat, default), 0
    for module, name in parameters:
        parameter = getattr(module, name)
        custom_from_mask(module, name, mask[at:at + parameter.numel()].view_as(parameter))
        at += parameter.numel()


def remove(module, name):
    """Makes a pruned parameter an ordinary one: the pruned values stay."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module):
    """Whether a parameter of the module, or of one below, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for _, child in module.named_modules()
               for hook in child._forward_pre_hooks.values())


__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
           "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured",
           "identity", "is_pruned", "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove"]
