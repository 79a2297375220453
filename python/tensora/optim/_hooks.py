"""What programs hang on optimizers: hooks around steps, of one optimizer and of all, and around their state."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable

from ..nn.modules.hooks import RemovableHandle, _add_hook

_global_optimizer_pre_hooks: OrderedDict[int, Any] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Any] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Optimizer.register_step_pre_hook for all optimizers; such hooks are called before those of an optimizer."""
    return _add_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Optimizer.register_step_post_hook for all optimizers; such hooks are called after those of an optimizer."""
    return _add_hook(_global_optimizer_post_hooks, hook)


class Hooked:
    """The part of Optimizer that registers hooks and calls them."""

    def _make_hooks(self):
        for place in ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre",
                      "load_state_dict_post"):
            setattr(self, f"_optimizer_{place}_hooks", OrderedDict())

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook`(optimizer, args, kwargs) before each step; what it returns, if not None, replaces (args, kwargs)."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook`(optimizer, args, kwargs) after each step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook`(optimizer) before state_dict(); before the other hooks if `prepend`."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook`(optimizer, state_dict) after state_dict(); what it returns, if not None, replaces the dict."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook`(optimizer, state_dict) with a shallow copy before load_state_dict(); what it returns, if not None,
        replaces the dict."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook`(optimizer) after load_state_dict()."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)

    def _has_step_hooks(self):
        return bool(_global_optimizer_pre_hooks or _global_optimizer_post_hooks or self._optimizer_step_pre_hooks
                    or self._optimizer_step_post_hooks)

    def _before_step(self, args):
        """The positional arguments of a step, as the hooks want them."""
        for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, {})
            if changed is None:
                continue
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise RuntimeError(f"{type(self).__name__}.step: a hook must return None or a tuple of (new_args, new_kwargs), "
                                   f"but got {changed}.")
            args = (*changed[0], *changed[1].values())
        return args

    def _after_step(self, args):
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
            hook(self, args, {})

    def _changed_by(self, hooks, state_dict):
        for hook in list(hooks.values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict
