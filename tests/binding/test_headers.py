"""The headers, the extension and the tables in ``reference`` say the same numbers under the same names."""

from __future__ import annotations

import re

import pytest

import aclnn_bindings
from aclnn_bindings._acl import ffi, lib
from aclnn_bindings.functions import INDEX
from reference.acl import (
    FORMAT_ENUMERATORS,
    MALLOC_POLICIES,
    MEMCPY_KINDS,
    MEMORY_ATTRIBUTES,
    SYSTEM_OPTIONS,
    TENSOR_FORMATS,
)
from reference.formats import FORMATS
from reference.status import STATUSES


def enumerators(name: str) -> dict[str, int]:
    """Enumerators of a C enum as the compiler saw them."""
    return dict(ffi.typeof(name).relements)


@pytest.mark.parametrize(
    ("enum", "table"),
    [
        ("aclFormat", {FORMAT_ENUMERATORS[name]: value for name, value in TENSOR_FORMATS.items()}),
        ("aclrtMemMallocPolicy", MALLOC_POLICIES),
        ("aclrtMemcpyKind", MEMCPY_KINDS),
        ("aclSysParamOpt", SYSTEM_OPTIONS),
        ("aclrtMemAttr", MEMORY_ATTRIBUTES),
    ],
)
def test_enumerators_are_those_of_the_reference_table(enum: str, table: dict[str, int]) -> None:
    assert enumerators(enum) == table


def test_every_number_format_has_the_data_type_of_the_header() -> None:
    header = enumerators("aclDataType")
    assert {row.acl_name: row.acl for row in FORMATS.values()}.items() <= header.items()


def test_data_types_by_hand() -> None:
    header = enumerators("aclDataType")
    expected = {"ACL_FLOAT": 0, "ACL_INT8": 2, "ACL_INT32": 3, "ACL_INT64": 9, "ACL_BF16": 27, "ACL_INT4": 29}
    expected |= {"ACL_FLOAT8_E5M2": 35, "ACL_FLOAT8_E4M3FN": 36, "ACL_FLOAT8_E8M0": 37, "ACL_FLOAT4_E2M1": 40}
    assert expected.items() <= header.items()


def test_every_status_constant_of_the_headers_is_in_the_status_table() -> None:
    text = "".join(path.read_text() for path in sorted(aclnn_bindings.include_directory().rglob("*.h")))
    names = re.findall(r"static const int (ACL(?:NN)?_(?:ERR\w*|SUCCESS))\b", text)
    assert len(names) > 80
    constants = {name: getattr(lib, name) for name in names}
    success = {"ACL_SUCCESS", "ACL_ERROR_NONE", "ACLNN_SUCCESS"}
    assert {constants.pop(name) for name in success} == {0}
    assert constants == {row.name: code for code, row in STATUSES.items() if code}


def test_phase_one_takes_the_vendors_twenty_two_arguments_in_order() -> None:
    path = aclnn_bindings.include_directory() / "aclnnop" / "aclnn_grouped_matmul_finalize_routing_v3.h"
    prototype = re.search(r"V3GetWorkspaceSize\((.*?)\);", path.read_text(), re.DOTALL)
    assert prototype is not None
    arguments = [" ".join(part.split()) for part in prototype[1].split(",")]
    tensor, optional = "const aclTensor* ", "Optional"
    assert arguments == [
        f"{tensor}x1",
        "aclTensor* x2",
        f"{tensor}scale{optional}",
        f"{tensor}bias{optional}",
        f"{tensor}offset{optional}",
        f"{tensor}antiquantScale{optional}",
        f"{tensor}antiquantOffset{optional}",
        f"{tensor}pertokenScale{optional}",
        f"{tensor}groupList{optional}",
        f"{tensor}sharedInput{optional}",
        f"{tensor}logit{optional}",
        f"{tensor}rowIndex{optional}",
        "int64_t dtype",
        "float sharedInputWeight",
        "int64_t sharedInputOffset",
        "bool transposeX1",
        "bool transposeX2",
        "int64_t groupListType",
        f"const aclIntArray* tuningConfig{optional}",
        "aclTensor* out",
        "uint64_t* workspaceSize",
        "aclOpExecutor** executor",
    ]


def test_every_function_of_the_headers_is_in_the_table() -> None:
    text = "".join(path.read_text() for path in sorted(aclnn_bindings.include_directory().rglob("*.h")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    declared = set(re.findall(r"^[\w ]+[\s*]+(acl\w+)\(", text, re.MULTILINE))
    assert len(declared) > 60
    assert declared == {name for name in INDEX if name.startswith("acl")}


def test_the_simulator_has_every_function_of_the_headers() -> None:
    functions = aclnn_bindings.simulator().functions
    assert [name for name in INDEX if not functions.has(name)] == []
