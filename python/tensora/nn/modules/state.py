"""Modules as dicts of tensors by name, and back."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, Mapping, NamedTuple

from ... import _C
from ..._C import Tensor
from ..._modes import no_grad
from ..parameter import Parameter, is_lazy


class _Changes:
    """How often modules got other tensors or children, or another mode: a replayed function records anew then."""
    count = 0


class _IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def _parts(state_dict, prefix):
    """The entries of each child of the module with this prefix: each module looks at its own only."""
    parts = {}
    for key, value in state_dict.items():
        name, dot, _ = key[len(prefix):].partition(".")
        if dot and key.startswith(prefix):
            parts.setdefault(name, {})[key] = value
    return parts


class Stateful:
    """The part of Module that saves and loads."""

    def get_extra_state(self) -> Any:
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, value in self._parameters.items():
            if value is not None:
                destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:
        """All parameters and persistent buffers by name."""
        if args:
            destination = args[0]
            prefix = args[1] if len(args) > 1 else prefix
            keep_vars = args[2] if len(args) > 2 else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if changed is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            else:
                destination = destination if changed is None else changed
        return destination

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        persistent = {n: b for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set}
        for name, target in {**self._parameters, **persistent}.items():
            if target is None:
                continue
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            self._load_one(name, target, key, state_dict[key], local_metadata, error_msgs)
        extra = prefix + "_extra_state"
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            known = set(self._parameters) | set(persistent) | {"_extra_state"}
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    name = key[len(prefix):].split(".", 1)
                    if (len(name) > 1 and name[0] not in self._modules) or (len(name) == 1 and name[0] not in known):
                        unexpected_keys.append(key)

    def _load_one(self, name, target, key, value, metadata, error_msgs):
        if not isinstance(value, Tensor):
            try:
                value = _C.tensor(value) if not hasattr(value, "__dlpack__") else _C.from_dlpack(value)
            except Exception:
                error_msgs.append(f"{key}: expected a tensor, got {type(value).__name__}")
                return
        if is_lazy(target):
            if not is_lazy(value):
                error_msgs.append(f"size mismatch for {key}: the layer has no parameter of shape {value.shape}.")
            return
        if target.dim() == 0 and value.dim() == 1 and value.numel() == 1:
            value = value[0]
        if value.shape != target.shape:
            error_msgs.append(f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                              f"the shape in current model is {target.shape}.")
            return
        try:
            with no_grad():
                if metadata.get("assign_to_params_buffers", False):
                    _Changes.count += 1
                    if isinstance(target, Parameter):
                        self._parameters[name] = (value if isinstance(value, Parameter)
                                                  else Parameter(value, target.requires_grad))
                    else:
                        self._buffers[name] = value
                else:
                    target.copy_(value)
        except Exception as error:
            error_msgs.append(f'While copying the parameter named "{key}", an exception occurred: {error}')

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True,
                        assign: bool = False) -> _IncompatibleKeys:
        """Takes parameters and buffers over from a state_dict."""
        if not hasattr(state_dict, "items"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        for key in state_dict:
            if not isinstance(key, str):
                raise TypeError(f"load_state_dict: expected names of parameters as keys, got {key!r}")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)

        def load(module, state_dict, prefix):
            local = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(state_dict, prefix, local, True, missing, unexpected, errors)
            parts = _parts(state_dict, prefix)
            for name, child in module._modules.items():
                if child is not None:
                    load(child, parts.get(name, {}), f"{prefix}{name}.")
            incompatible = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise AssertionError("Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                                         "new values, if incompatible_keys need to be modified, it should be done inplace.")
        load(self, state_dict, "")
        del load  # which refers to itself: a cycle that would hold the tensors
        if strict:
            if unexpected:
                errors.insert(0, "Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in unexpected) + ". ")
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in missing) + ". ")
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return _IncompatibleKeys(missing, unexpected)
