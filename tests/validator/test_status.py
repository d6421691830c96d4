"""The table of status codes agrees with the headers and explains itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reference.status import REFUSALS, STATUSES, message_prefix, status_name

INCLUDE = Path(__file__).parents[2] / "include"
ENUMERATOR = re.compile(r"^static const int (ACL\w+) = (\d+);", re.MULTILINE)


def header_codes() -> dict[int, str]:
    found = {}
    for name in ("acl/acl_base.h", "aclnn/acl_meta.h"):
        for enumerator, code in ENUMERATOR.findall((INCLUDE / name).read_text()):
            found[int(code)] = enumerator
    return found


def test_every_code_of_the_headers_is_explained_under_the_same_name() -> None:
    assert {code: row.name for code, row in STATUSES.items()} == header_codes()


def test_every_row_says_what_it_means_and_what_to_do() -> None:
    assert [row.code for row in STATUSES.values() if not row.meaning or not row.cause] == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "ACLNN_SUCCESS"),
        (161001, "ACLNN_ERR_PARAM_NULLPTR"),
        (161002, "ACLNN_ERR_PARAM_INVALID"),
        (561103, "ACLNN_ERR_INNER_NULLPTR"),
        (507035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION"),
        (4711, "UNKNOWN_STATUS_4711"),
    ],
)
def test_status_name(code: int, name: str) -> None:
    assert status_name(code) == name


@pytest.mark.parametrize(
    ("code", "prefix"), [(161002, "EZ1001"), (361001, "EZ9903"), (561103, "EZ9999"), (0, None), (4711, None)]
)
def test_message_prefix(code: int, prefix: str | None) -> None:
    assert message_prefix(code) == prefix


def test_refusals_are_what_checks_shape_inference_and_tiling_return() -> None:
    assert {161001, 161002, 561001, 561002, 561103} == REFUSALS
