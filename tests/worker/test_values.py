# pyright: basic
"""Inputs are copied whatever they are, and a copy behaves like what it was copied from."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Iterator

import pytest
import torch

from forwardlens.worker import ambient
from forwardlens.worker.values import Uncopyable, copy_tensors, fingerprint, map_tensors, tensors

pytestmark = pytest.mark.torch

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass(frozen=True)
class Batch:
    ids: torch.Tensor
    extra: dict[str, object]


def test_nested_containers_keep_their_types_and_get_new_tensors() -> None:
    x = torch.randn(2, 3)
    value = (Pair(x, [x + 1]), Batch(x, {"a": (x, None, 3)}), collections.OrderedDict(b={1: x}))
    copied = copy_tensors(value)
    assert [type(part) for part in copied] == [Pair, Batch, collections.OrderedDict]
    assert all(torch.equal(a, b) and a is not b for a, b in zip(tensors(value), tensors(copied), strict=True))
    assert copied[1].extra["a"][1:] == (None, 3)


def test_one_tensor_in_two_places_stays_one() -> None:
    x = torch.randn(3)
    first, second = copy_tensors([x, {"same": x}])
    assert second["same"] is first


def test_views_share_memory_in_the_copy_as_in_the_original() -> None:
    base = torch.arange(12.0).view(3, 4)
    copied, row, column = copy_tensors((base, base[1], base[:, 2]))
    copied.zero_()
    assert not row.any()
    assert not column.any()
    assert base.any()
    assert column.stride() == (4,)


def test_views_of_other_types_and_expanded_tensors_keep_their_layout() -> None:
    base = torch.arange(8, dtype=torch.int32)
    as_bytes, expanded = base.view(torch.uint8)[4:], torch.randn(1, 3).expand(5, 3)
    copied, copied_bytes, copied_expanded = copy_tensors((base, as_bytes, expanded))
    copied.zero_()
    assert not copied_bytes.any()
    assert copied_expanded.stride() == (0, 1)
    assert torch.equal(copied_expanded, expanded)


def test_leaves_stay_leaves_and_results_stay_results() -> None:
    leaf = torch.randn(3, requires_grad=True)
    copied_leaf, result = copy_tensors((leaf, leaf * 2))
    assert copied_leaf.is_leaf
    assert copied_leaf.requires_grad
    assert not result.is_leaf
    result.add_(1)  # a leaf would refuse


def test_parameters_modules_functions_and_classes_are_the_same_ones() -> None:
    module = torch.nn.Linear(2, 2)
    shared = (module, module.weight, len, Batch, lambda: None)
    assert all(a is b for a, b in zip(shared, copy_tensors(shared), strict=True))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.eye(3).to_sparse(),
        torch.eye(3).to_sparse_csr(),
        torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8),
        torch.empty(2, 3, device="meta"),
        torch.randn(2, dtype=torch.complex64).conj(),
        torch.empty(0, 3),
        torch.randn(3, 4).t(),
    ],
    ids=["sparse", "compressed", "quantised", "meta", "conjugate", "empty", "transposed"],
)
def test_tensors_of_every_kind_are_copied(tensor: torch.Tensor) -> None:
    (copied,) = copy_tensors((tensor,))
    assert copied is not tensor
    assert (copied.layout, copied.dtype, copied.shape) == (tensor.layout, tensor.dtype, tensor.shape)
    if not tensor.is_meta:
        plain = lambda t: t.dequantize() if t.is_quantized else t.to_dense() if t.layout is not torch.strided else t  # noqa: E731
        assert torch.equal(plain(copied), plain(tensor))


def test_objects_that_cannot_be_copied_are_shared_and_their_neighbours_copied() -> None:
    class Holder:
        def __init__(self) -> None:
            self.lock, self.x = threading.Lock(), torch.ones(2)

    holder = Holder()
    copied = copy_tensors(holder)
    assert copied is not holder
    assert copied.lock is holder.lock
    assert copied.x is not holder.x


def test_what_can_be_read_only_once_is_refused() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    for value in (numbers(), [iter(numbers())], {"a": zip([1], numbers(), strict=False)}):
        with pytest.raises(Uncopyable, match="a generator, which can be read only once"):
            copy_tensors(value)
    with open(__file__) as file, pytest.raises(Uncopyable, match="a TextIOWrapper"):  # noqa: PTH123
        copy_tensors((file,))


def test_caches_of_model_libraries_do_not_grow_across_replays() -> None:
    transformers = pytest.importorskip("transformers")
    cache = transformers.DynamicCache()
    keys = torch.ones(1, 2, 3, 4)
    cache.update(keys, keys, 0)
    before = fingerprint(cache)
    for _ in range(3):
        replayed = copy_tensors(cache)
        replayed.update(keys, keys, 0)
        assert replayed.get_seq_length() == 6
    assert cache.get_seq_length() == 3
    assert fingerprint(cache) == before
    cache.update(keys, keys, 0)
    assert fingerprint(cache) != before


def test_mappings_and_outputs_of_model_libraries_are_copied() -> None:
    pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput
    from transformers.tokenization_utils_base import BatchEncoding

    x = torch.ones(2)
    encoding, output = copy_tensors((BatchEncoding({"ids": x}), BaseModelOutput(last_hidden_state=x + 1)))
    assert type(encoding) is BatchEncoding
    assert encoding["ids"] is not x
    assert torch.equal(output.last_hidden_state, x + 1)


def test_fingerprint_sees_what_is_written() -> None:
    x, held = torch.ones(2), [1]
    value = {"x": x, "held": held}
    first = fingerprint(value)
    assert fingerprint(value) == first
    x.add_(1)
    second = fingerprint(value)
    assert second != first
    held.append(2)
    assert fingerprint(value) != second


def test_tensors_are_moved_wherever_they_are() -> None:
    moved = map_tensors(lambda tensor: tensor.to("meta"), Batch(torch.ones(2), {"a": [torch.ones(3)]}))
    assert all(tensor.is_meta for tensor in tensors(moved))


def test_surroundings_of_a_call_can_be_entered_again() -> None:
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        inside = ambient.now()
    x = torch.ones(2, 2)
    with inside.entered():
        assert not torch.is_grad_enabled()
        assert (x @ x).dtype is torch.bfloat16
        assert torch.ones(1).is_meta
    assert torch.is_grad_enabled()
    assert not torch.ones(1).is_meta
    with torch.inference_mode():
        inside = ambient.now()
    with inside.entered():
        assert torch.ones(1).is_inference()
