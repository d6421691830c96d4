"""Bundles that others wrote wrongly: each is refused with its name and what is wrong, none is guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import make_case, read_bundle, write_bundle
from reference.bundle import BundleError


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "call.safetensors"
    write_bundle(path, make_case("w0"))
    return path


def change(path: Path, edit: Any) -> Path:
    """Edit the file's header in place: ``edit(header, call)``, ``call`` being the metadata's object."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    call = json.loads(header["__metadata__"]["gmmfr"])
    edit(header, call)
    if isinstance(header["__metadata__"], dict):
        header["__metadata__"]["gmmfr"] = json.dumps(call)
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + content[8 + length :])
    return path


def set_header(**entry: Any) -> Any:
    return lambda header, call: header["logit"].update(entry)


def set_call(**entry: Any) -> Any:
    return lambda header, call: call.update(entry)


def set_metadata(value: Any) -> Any:
    return lambda header, call: header.update(__metadata__=value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (set_metadata(5), "damaged safetensors header: __metadata__: expected an object, got int"),
        (set_metadata([1]), "damaged safetensors header: __metadata__: expected an object, got list"),
        (set_header(shape=[4.9]), "tensor 'logit': expected dtype, shape and two data_offsets, got"),
        (set_header(shape="4"), "tensor 'logit': expected dtype, shape and two data_offsets, got"),
        (
            set_header(data_offsets=[0, 16, 32]),
            "tensor 'logit': expected dtype, shape and two data_offsets, got",
        ),
        (set_header(shape=[0, 2**62, 2**62], data_offsets=[0, 0]), "too big"),
        (set_header(dtype="C64"), "tensor 'logit': dtype 'C64' is unknown; known: F32"),
        (set_header(shape=[-4]), "tensor 'logit': negative length in shape"),
        (set_call(attributes=[]), "metadata attributes: expected an object, got list"),
        (set_call(dtypes=5), "metadata dtypes: expected an object, got int"),
        (set_call(recorded=5), "metadata recorded: expected an object, got int"),
        (
            set_call(layouts={"x1": 5}),
            "layouts x1: expected an object of strides, offset, format, storage_shape",
        ),
        (set_call(layouts={"x1": {"shape": [2, 2]}}), "layouts x1: expected an object of strides, offset"),
        (set_call(layouts={"x1": {"strides": [-256, 1]}}), "layouts x1: expected strides of 0 or more, got"),
        (
            set_call(layouts={"x1": {"strides": [0, 1]}}),
            "layouts x1: strides .* let elements overlap that differ",
        ),
        (
            set_call(layouts={"x1": {"strides": [10**15, 1]}}),
            "layouts x1: strides .* spread 1024 elements over",
        ),
        (set_call(layouts={"out": {"strides": [1, 1]}}), "layouts out: strides .* let elements overlap"),
        (set_call(layouts={"out": {"strides": [-128, 1]}}), "layouts out: strides .* let elements overlap"),
        (lambda header, call: header.update(outlier=header.pop("bias")), "tensor 'outlier' is no argument"),
    ],
)
def test_a_damaged_bundle_is_refused_by_name(whole: Path, edit: Any, message: str) -> None:
    with pytest.raises(BundleError, match=message) as caught:
        read_bundle(change(whole, edit))
    assert str(caught.value).startswith(f"{whole}: ")


def test_rows_that_share_memory_are_read_where_they_are_equal(whole: Path) -> None:
    call = read_bundle(
        change(whole, set_call(layouts={"logit": {"strides": [2]}, "bias": {"strides": [256, 2]}}))
    )
    assert call.problem.spec("bias").strides == (256, 2)
    np.testing.assert_array_equal(call.bias, make_case("w0").bias)
    again = read_bundle(change(whole, set_call(layouts={"pertoken_scale": {"strides": [0]}})))
    assert again.pertoken_scale is not None
    assert again.pertoken_scale.strides == (0,)
    assert again.pertoken_scale.tolist() == [1.0] * 4
