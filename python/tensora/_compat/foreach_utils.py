"""torch.utils._foreach_utils: lists of tensors in groups of one device and dtype."""


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """{(device, dtype of the first list): (lists, positions)}; a list may have None for all."""
    groups = {}
    for i, first in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for found, given in zip(lists, tensorlistlist):
            if given:
                found.append(given[i])
        places.append(i)
    return {key: (lists, places if with_indices else []) for key, (lists, places) in groups.items()}


def _get_foreach_kernels_supported_devices():
    return ["cuda"]


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _device_has_foreach_support(device):
    return device.type == "cuda"


def _has_foreach_support(tensors, device):
    """Whether all tensors are on a device for which lists of tensors are the faster form."""
    return _device_has_foreach_support(device) and all(t is None or t.device.type == device.type for t in tensors)
