"""A C++ program that makes one call through the vendor's API and checks it: for a report to the vendor.

It needs CANN's headers and libraries alone: operands, expected output and allowed difference are in it.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gmmfr.cli_support import UsageFailure
from reference.formats import number_format
from reference.golden_operator import golden
from reference.judging import Judge
from reference.operands import Array, Operands, is_dense
from reference.problem import C_NAMES, INPUTS, TensorSpec

#: A program with more data than this takes a compiler too long.
_MOST_BYTES = 1 << 20

_TEMPLATE = r"""@HEAD@
// Build:  g++ -std=c++17 -I$ASCEND_HOME_PATH/include @FILE@ -L$ASCEND_HOME_PATH/lib64
//             -lopapi -lnnopbase -lascendcl
// Exit code: 0 every element is within the allowed difference, 1 one is not, 2 a call failed.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h"

namespace {

void check(int status, const char* what) {
    if (status == 0) return;
    const char* message = aclGetRecentErrMsg();
    std::printf("%s failed with %d: %s\n", what, status, message ? message : "no message");
    std::exit(2);
}

struct Tensor {
    aclTensor* handle = nullptr;
    void* memory = nullptr;

    Tensor(const void* data, size_t bytes, std::vector<int64_t> dims, std::vector<int64_t> strides,
           aclDataType type) {
        check(aclrtMalloc(&memory, bytes ? bytes : 32, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
        if (bytes) {
            check(aclrtMemcpy(memory, bytes, data, bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
        }
        handle = aclCreateTensor(dims.data(), dims.size(), type, strides.data(), 0, ACL_FORMAT_ND,
                                 dims.data(), dims.size(), memory);
        check(handle == nullptr, "aclCreateTensor");
    }
    ~Tensor() {
        aclDestroyTensor(handle);
        aclrtFree(memory);
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
};

@DATA@
constexpr size_t kElements = @ELEMENTS@;

int run() {
    aclrtStream stream = nullptr;
    check(aclrtCreateStream(&stream), "aclrtCreateStream");
@TENSORS@
    std::vector<float> result(kElements, NAN);
    Tensor out(result.data(), kElements * sizeof(float), @OUT_DIMS@, @OUT_STRIDES@, ACL_FLOAT);
@TUNING@
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    check(aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
              @HANDLES@,
              @ATTRIBUTES@, tuning, out.handle, &bytes, &executor),
          "phase 1");
    void* workspace = nullptr;
    if (bytes) check(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "workspace");
    check(aclnnGroupedMatmulFinalizeRoutingV3(workspace, bytes, executor, stream), "phase 2");
    check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    check(aclrtMemcpy(result.data(), kElements * sizeof(float), out.memory, kElements * sizeof(float),
                      ACL_MEMCPY_DEVICE_TO_HOST),
          "aclrtMemcpy of out");
    if (workspace) aclrtFree(workspace);
    if (tuning) aclDestroyIntArray(tuning);
    check(aclrtDestroyStream(stream), "aclrtDestroyStream");

    size_t wrong = 0;
    for (size_t i = 0; i < kElements; ++i) {
        const bool same = std::isnan(kExpected[i]) ? std::isnan(result[i]) : result[i] == kExpected[i];
        if (same || std::fabs(result[i] - kExpected[i]) <= kAllowed[i]) continue;
        if (++wrong <= 10) {
            std::printf("row %zu, column %zu: got %.9g, expected %.9g, allowed difference %.3g\n",
                        i / @N@, i % @N@, result[i], kExpected[i], kAllowed[i]);
        }
    }
    std::printf("%s: %zu of %zu elements differ\n", wrong ? "FAIL" : "PASS", wrong, kElements);
    return wrong ? 1 : 0;
}

}  // namespace

int main() {
    check(aclInit(nullptr), "aclInit");
    check(aclrtSetDevice(0), "aclrtSetDevice");
    const int code = run();
    check(aclrtResetDevice(0), "aclrtResetDevice");
    check(aclFinalize(), "aclFinalize");
    return code;
}
"""


def write_program(path: str | os.PathLike[str], operands: Operands, title: str, call: str) -> None:
    """Write the program of ``operands`` to ``path``; ``title`` and ``call`` (one line each) go to its head.

    Raises :class:`UsageFailure` for more than 1 MB of operands, and for layouts that are not dense.
    """
    file = Path(path)
    size = sum(array.nbytes for array in operands.arrays.values())
    if size > _MOST_BYTES:
        raise UsageFailure(
            f"a program holds at most {_MOST_BYTES:,} bytes of operands, the call has {size:,}"
        )
    file.write_text(_fill(_fields(operands, title, call, file.name)), encoding="utf-8")


def _fill(fields: dict[str, str]) -> str:
    text = _TEMPLATE
    for name, value in fields.items():
        text = text.replace(f"@{name}@", value)
    return text


def _fields(operands: Operands, title: str, call: str, file: str) -> dict[str, str]:
    problem, attributes = operands.problem, operands.attributes
    present = [name for name in INPUTS if name in operands.arrays]
    truth = golden(operands, magnitudes=True)
    with np.errstate(over="ignore"):
        expected, allowed = truth.out.astype(np.float32), Judge(truth).bound(slice(None)).astype(np.float32)
    # The expected value is itself rounded to float32.
    allowed += np.spacing(np.abs(np.where(np.isfinite(expected), expected, 0)))
    data = [_bytes(name, _memory(name, operands)) for name in present]
    data += [_floats("kExpected", expected), _floats("kAllowed", allowed)]
    out = problem.spec("out")
    weight = float(np.float32(attributes.shared_input_weight)).hex()
    flags = f"{_boolean(attributes.transpose_x1)}, {_boolean(attributes.transpose_x2)}"
    numbers = f"{attributes.dtype}, {weight}f, {attributes.shared_input_offset}, {flags}"
    return {
        "HEAD": f"{_comment(title)}\n//\n{_comment(call)}",
        "FILE": file,
        "DATA": "\n".join(data),
        "ELEMENTS": str(out.size),
        "N": str(max(1, problem.n)),
        "TENSORS": "\n".join(_tensor(name, problem.spec(name)) for name in present),
        "OUT_DIMS": _list(out.shape),
        "OUT_STRIDES": _list(out.element_strides),
        "TUNING": _tuning(attributes.tuning_config),
        "HANDLES": _handles(present),
        "ATTRIBUTES": f"{numbers}, {attributes.group_list_type}",
    }


def _memory(name: str, operands: Operands) -> bytes:
    """The bytes of one input as they lie on the device."""
    array: Array = operands.arrays[name]
    spec = operands.problem.spec(name)
    if not is_dense(array) or spec.offset or spec.format != "ND":
        raise UsageFailure(f"{name}: a program takes dense ND tensors, got {spec.describe()}")
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    memory: bytes = array.transpose(order).tobytes()
    return memory


def _comment(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 105, initial_indent="// ", subsequent_indent="// ")


def _handles(present: list[str]) -> str:
    """The tensor arguments of phase 1, four in a line."""
    handles = [f"{C_NAMES[name]}.handle" if name in present else "nullptr" for name in INPUTS]
    lines = [", ".join(handles[first : first + 4]) for first in range(0, len(handles), 4)]
    return ",\n              ".join(lines)


def _bytes(name: str, memory: bytes) -> str:
    return f"alignas(32) constexpr unsigned char k_{name}[] = {{\n{_wrap(map(str, memory or b'0'))}}};"


def _floats(name: str, values: Any) -> str:
    return (
        f"constexpr float {name}[] = {{\n{_wrap(_float(v) for v in values.reshape(-1).tolist() or [0.0])}}};"
    )


def _float(value: float) -> str:
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{value:.9g}" + ("f" if set(f"{value:.9g}") & set(".en") else ".0f")


def _wrap(words: Iterable[str]) -> str:
    """Words with commas, in lines of about 110 characters."""
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > 108:
            lines.append(line.rstrip())
            line = ""
        line += f"{word}, "
    return "\n".join([*lines, line.rstrip(", ")])


def _tensor(name: str, spec: TensorSpec) -> str:
    fmt = number_format(spec.dtype)
    layout = f"{_list(spec.shape)}, {_list(spec.element_strides)}, {fmt.acl_name}"
    return f"    Tensor {C_NAMES[name]}(k_{name}, {fmt.nbytes(spec.size)}, {layout});"


def _tuning(entries: tuple[int, ...] | None) -> str:
    if entries is None:
        return "    aclIntArray* tuning = nullptr;"
    values = ", ".join(map(str, entries)) or "0"
    return (
        f"    const int64_t entries[] = {{{values}}};\n"
        f"    aclIntArray* tuning = aclCreateIntArray(entries, {len(entries)});"
    )


def _list(numbers: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, numbers)) + "}"


def _boolean(value: bool) -> str:
    return "true" if value else "false"
