# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""The tensors in a value, and copies of it: whatever holds them, and shared memory shared alike.

A value is taken apart with pickle, which knows how to rebuild almost every object, but its tensors, functions, classes
and modules are set aside and never written. Copies get new tensors and the same functions, classes and modules.
"""

from __future__ import annotations

import contextlib
import copyreg
import inspect
import io
import pickle
import sys
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import torch

# Nothing a forward is given to read as data; a copy means the same one.
_SHARED = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    torch.nn.Module,
    torch.nn.Parameter,
    torch.optim.Optimizer,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)
# Storages of copies start where every data type may start.
_ALIGNMENT = 16


class Uncopyable(Exception):
    """The value can be read only once; the text says what in it."""


def tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor in `value`, in the order it is met; as often as it is met, so that two values compare pairwise."""
    packer = _Packer(io.BytesIO())
    with contextlib.suppress(Uncopyable, RecursionError):
        packer.dump(value)
    return [packer.kept[number] for number in packer.met if isinstance(packer.kept[number], torch.Tensor)]


def copy_tensors(value: Any) -> Any:
    """`value` anew: other containers and objects, other tensors with equal contents, overlapping each other where the
    originals do. Raises `Uncopyable`.
    """
    data, kept = _take_apart(value)
    return _put_together(data, _copies(kept))


def copy_for_reloaded(value: Any) -> Any:
    """`copy_tensors` for a program that was loaded again: objects become those of the classes that now go by the names
    of theirs, so that its `isinstance` knows them. Raises `Uncopyable`.
    """
    data, kept = _take_apart(value)
    return _put_together(data, [_namesake(item) for item in _copies(kept)])


def _namesake(item: Any) -> Any:
    """The class or function that is found today where `item` was defined; `item` where there is none."""
    if not isinstance(item, (type, types.FunctionType)):
        return item
    found: Any = sys.modules.get(item.__module__ or "")
    for part in item.__qualname__.split("."):
        found = getattr(found, part, None)
    return found if type(found) is type(item) else item


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """`value` anew with `function` applied to each tensor. Raises `Uncopyable`."""
    data, kept = _take_apart(value)
    return _put_together(data, [function(item) if isinstance(item, torch.Tensor) else item for item in kept])


def fingerprint(value: Any) -> Hashable:
    """Equal for a value as long as nothing was written to it, to its tensors or to what holds them; None where that
    cannot be told.
    """
    try:
        data, kept = _take_apart(value)
    except Uncopyable:
        return None
    return data, tuple((id(item), _version(item)) for item in kept)


def _version(item: Any) -> int | None:
    return item._version if isinstance(item, torch.Tensor) and not item.is_inference() else None


def _take_apart(value: Any) -> tuple[bytes, list[Any]]:
    """How to rebuild `value`, and the tensors and shared objects in it, in the order they are met."""
    stream = io.BytesIO()
    packer = _Packer(stream)
    try:
        packer.dump(value)
    except RecursionError:
        raise Uncopyable("something nested too deeply") from None
    return stream.getvalue(), packer.kept


def _put_together(data: bytes, kept: list[Any]) -> Any:
    return _Unpacker(io.BytesIO(data), kept).load()


class _AsItIs:
    """Marks an object that pickle cannot take apart and that is therefore shared."""

    def __init__(self, item: Any) -> None:
        self.item = item


def _itself(item: Any) -> Any:
    return item


class _Packer(pickle.Pickler):
    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5)
        self.kept: list[Any] = []
        self.met: list[int] = []
        self._numbers: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if isinstance(obj, _AsItIs):
            obj = obj.item
        elif not isinstance(obj, torch.Tensor) and not isinstance(obj, _SHARED):
            return None
        number = self._numbers.get(id(obj))
        if number is None:
            number = self._numbers[id(obj)] = len(self.kept)
            self.kept.append(obj)
        self.met.append(number)
        return number

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) in copyreg.dispatch_table:
            return NotImplemented
        try:
            return obj.__reduce_ex__(5)
        except Exception as error:  # whatever the user's own methods raise
            if _is_read_once(obj):
                raise Uncopyable(f"a {type(obj).__name__}, which can be read only once") from error
            return _itself, (_AsItIs(obj),)


class _Unpacker(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(stream)
        self._kept = kept

    def persistent_load(self, pid: int) -> Any:
        return self._kept[pid]


def _is_read_once(item: Any) -> bool:
    if isinstance(item, io.IOBase):
        return not item.closed and item.readable()
    return hasattr(item, "__next__") or hasattr(item, "__anext__") or inspect.isawaitable(item)


def _copies(kept: list[Any]) -> list[Any]:
    """Copies of the tensors, shared objects as they are."""
    together = _overlapping(kept)
    with torch.inference_mode(False), torch.no_grad():
        shared = {key: _copy_memory(group) for key, group in together.items() if len(group) > 1}
        return [_copy(item, shared.get(_storage_key(item) or 0)) for item in kept]


def _overlapping(kept: Iterable[Any]) -> dict[int, list[torch.Tensor]]:
    groups: dict[int, list[torch.Tensor]] = {}
    for item in kept:
        key = _storage_key(item)
        if key is not None:
            groups.setdefault(key, []).append(item)
    return groups


def _storage_key(item: Any) -> int | None:
    """The same for tensors that lie in the same memory; None for all but plain dense ones."""
    if type(item) is not torch.Tensor or item.layout is not torch.strided or item.is_quantized or item.numel() == 0:
        return None
    return None if item.is_meta else item.untyped_storage()._cdata


def _copy(item: Any, memory: tuple[torch.UntypedStorage, int] | None) -> Any:
    if not isinstance(item, torch.Tensor) or isinstance(item, torch.nn.Parameter):
        return item
    if memory is None and 0 in (item.stride() if _storage_key(item) is not None else ()):
        memory = _copy_memory([item])
    if memory is None:
        copied = item.detach().clone()
    else:
        storage, start = memory
        offset = item.storage_offset() - start // item.element_size()
        copied = torch.empty(0, dtype=item.dtype, device=item.device).set_(storage, offset, item.shape, item.stride())
    if not item.requires_grad:
        return copied
    copied.requires_grad_()
    if item.is_leaf:
        return copied
    with torch.enable_grad():
        # What a program computed may be written to in place, which a leaf may not.
        return copied.clone()


def _copy_memory(group: list[torch.Tensor]) -> tuple[torch.UntypedStorage, int]:
    """The bytes that the tensors of one storage span, copied, and where they began."""
    first = min(int(t.storage_offset()) * t.element_size() for t in group) // _ALIGNMENT * _ALIGNMENT
    last = max((int(t.storage_offset()) + _span(t)) * t.element_size() for t in group)
    raw = torch.empty(0, dtype=torch.uint8, device=group[0].device).set_(group[0].untyped_storage())
    return raw[first:last].clone().untyped_storage(), first


def _span(tensor: torch.Tensor) -> int:
    """How many elements lie between its first and its last one, both included."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
