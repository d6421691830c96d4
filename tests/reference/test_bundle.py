"""Bundles: what is written comes back, and damaged files say what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from reference import Operands, golden, make_case, read_bundle, write_bundle
from reference.cases import CASES
from reference.safetensors_file import BundleError, read_output, write_tensors

SMALL = [name for name, case in CASES.items() if case.k * case.n * case.e < 2_000_000]


def same(first: Operands, second: Operands) -> bool:
    return first.problem == second.problem and all(
        np.array_equal(first.arrays[name].view(np.uint8), second.arrays[name].view(np.uint8))
        for name in first.arrays
        if first.arrays[name].flags.c_contiguous
    )


@pytest.mark.parametrize("name", SMALL)
def test_round_trip(name: str, tmp_path: Path) -> None:
    operands = make_case(name)
    write_bundle(tmp_path / "case.safetensors", operands)
    assert same(read_bundle(tmp_path / "case.safetensors"), operands)


@pytest.mark.parametrize("name", ["c12", "c16"])
def test_strided_calls_keep_their_strides(name: str, tmp_path: Path) -> None:
    operands = make_case(name)
    arrays = dict(operands.arrays)
    arrays["x2"] = arrays["x2"].transpose(0, 2, 1)
    arrays["scale"] = arrays["scale"].transpose(0, 2, 1, 3)
    fp4 = {"x1": "float4_e2m1fn", "x2": "float4_e2m1fn"} if name == "c16" else None
    strided = Operands.from_arrays(platform="ascend950", batch=operands.batch, dtypes=fp4, **arrays)
    write_bundle(tmp_path / "case.safetensors", strided)
    again = read_bundle(tmp_path / "case.safetensors")
    assert again.problem == strided.problem
    assert again.arrays["x2"].strides == strided.arrays["x2"].strides
    np.testing.assert_array_equal(golden(again).out, golden(operands).out)


def test_a_bundle_written_with_the_safetensors_package(tmp_path: Path) -> None:
    """Scales and packed FP4 as U8 with a dtypes entry, by hand."""
    path = tmp_path / "by_hand.safetensors"
    call = {
        "platform": "atlas_350",
        "batch": 1,
        "dtypes": dict.fromkeys(("scale", "pertoken_scale"), "float8_e8m0fnu")
        | {"x1": "float4_e2m1fn", "x2": "float4_e2m1fn"},
    }
    save_file(
        {
            "x1": np.full((1, 32), 0x22, np.uint8),  # 64 ones
            "x2": np.full((1, 64, 1), 0x42, np.uint8),  # columns 1 and 2
            "scale": np.full((1, 1, 2, 2), 127, np.uint8),
            "pertoken_scale": np.full((1, 1, 2), 127, np.uint8),
            "group_list": np.array([1]),
            "row_index": np.array([0]),
            "logit": np.ones(1, np.float32),
        },
        path,
        {"gmmfr": json.dumps(call)},
    )
    operands = read_bundle(path)
    assert operands.problem.platform == "ascend950"
    assert operands.problem.spec("x1").shape == (1, 64)
    assert operands.problem.spec("x2").shape == (1, 64, 2)
    assert golden(operands).out.tolist() == [[64, 128]]


def test_bytes_without_an_entry_are_uint8(tmp_path: Path) -> None:
    save_file({"scale": np.full((1, 1, 2, 2), 127, np.uint8)}, tmp_path / "b.safetensors", _metadata())
    assert read_bundle(tmp_path / "b.safetensors").problem.spec("scale").dtype == "uint8"


def test_reading_maps_the_file(tmp_path: Path) -> None:
    write_bundle(tmp_path / "case.safetensors", make_case("c11"))
    x2 = read_bundle(tmp_path / "case.safetensors").arrays["x2"]
    assert not x2.flags.owndata
    assert not x2.flags.writeable


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b.safetensors", make_case("m0"))
    (tmp_path / "other").touch()
    assert (tmp_path / "b.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_recorded_outputs_come_back(tmp_path: Path) -> None:
    out = np.arange(64, dtype=np.float32).reshape(1, 64)
    write_bundle(tmp_path / "b.safetensors", make_case("m0"), {"aclnn": out}, {"device": "npu:0"})
    recorded = read_bundle(tmp_path / "b.safetensors").recorded
    assert recorded["device"] == "npu:0"
    np.testing.assert_array_equal(recorded["outputs"]["out.aclnn"], out)


def _metadata(**changes: Any) -> dict[str, str]:
    return {"gmmfr": json.dumps({"platform": "ascend950", "batch": 1, **changes})}


def _header(**tensors: Any) -> bytes:
    raw = json.dumps(tensors).encode()
    return len(raw).to_bytes(8, "little") + raw


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a safetensors file"),
        (b"\x01\x02", "not a safetensors file"),
        (b"\xff" * 64, "not a safetensors file"),
        ((4).to_bytes(8, "little") + b"\x00\x01\x02\x03", "damaged safetensors header"),
        (_header(x1=7), "damaged safetensors header"),
        (_header(x1={"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}), "truncated: tensor 'x1'"),
        (_header(x1={"dtype": "I8", "shape": [4], "data_offsets": [0, 0]}), "does not fill 0 bytes"),
        (_header(x1={"dtype": "Q8", "shape": [0], "data_offsets": [0, 0]}), "dtype 'Q8' is unknown"),
        (_header(), "metadata key 'gmmfr' is missing"),
    ],
)
def test_damaged_files_say_what_is_wrong(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(BundleError, match=message):
        read_bundle(path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"gmmfr": "{"}, "bad.safetensors"),
        ({"gmmfr": "[]"}, "expected an object, got list"),
        ({"gmmfr": "{}"}, "key 'platform' is missing"),
        (_metadata(platform="tpu"), "platform 'tpu' is unknown"),
        (_metadata(batch=-1), "batch: expected a number of rows, got -1"),
        (_metadata(attributes={"transpose": True}), "unknown key 'transpose'"),
        (_metadata(dtypes={"x9": "int8"}), "argument 'x9' is unknown"),
        (_metadata(dtypes={"x1": "float8_e8m0fnu"}), "cannot be read from a I8 tensor"),
        (_metadata(layouts={"x1": {"strides": [1]}}), "strides"),
    ],
)
def test_wrong_metadata_says_what_is_wrong(metadata: dict[str, str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    save_file({"x1": np.zeros((2, 2), np.int8)}, path, metadata)
    with pytest.raises(BundleError, match=message):
        read_bundle(path)


def test_an_unknown_tensor_is_refused(tmp_path: Path) -> None:
    save_file({"weights": np.zeros(1, np.int8)}, tmp_path / "b.safetensors", _metadata())
    with pytest.raises(BundleError, match="tensor 'weights' is no argument"):
        read_bundle(tmp_path / "b.safetensors")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.safetensors"
    write_tensors(path, {"out": np.zeros(3, np.float32)}, {})
    with pytest.raises(Exception, match="object"):
        write_tensors(path, {"out": np.array([object()])}, {})
    assert read_output(path).tolist() == [0, 0, 0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.safetensors"]


def test_one_byte_fp4_is_packed_low_nibble_first() -> None:
    operands = Operands.from_arrays(
        platform="ascend950",
        batch=1,
        x1=np.array([[1.0, 6.0]], ml_dtypes.float4_e2m1fn),
        x2=np.zeros((1, 2, 2), np.uint8),
    )
    assert operands.arrays["x1"].tolist() == [[0x72]]
    assert operands.problem.spec("x1").shape == (1, 2)
