"""What is true about the operator, in pure Python and NumPy.

Number formats, platforms, :class:`Problem` and :class:`Operands`, the validator, the golden, the
comparator, the named cases, and the helpers that prepare operands.  Names are loaded when first used, so
that validating a problem file imports neither NumPy nor ml_dtypes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reference.activations import dequantise_int8, quantise_int8
    from reference.bundle import read_bundle, write_bundle
    from reference.cases import CASES, make_case
    from reference.comparator import Comparison, compare
    from reference.compensation import k_slices, make_bias, make_offset
    from reference.diagnosis import Diagnosis, diagnose
    from reference.golden_operator import Golden, golden
    from reference.int4 import Int4Weights, pack_int4, quantise_int4, unpack_int4
    from reference.location import Location, locate
    from reference.mx import MxTensor, dequantise_mx, quantise_mx
    from reference.operands import Operands
    from reference.problem import Attributes, Problem, ProblemError, TensorSpec
    from reference.routing import (
        RoutedRows,
        compact,
        from_topk,
        local_experts,
        local_group_list,
        to_count,
        to_cumsum,
        to_replicas,
    )
    from reference.scales import pack_scale_int64, scale_loss, unpack_scale_int64
    from reference.sentinel import fill_with_sentinel, sentinel_filled, unwritten
    from reference.stages import GoldenStages, golden_stages
    from reference.validator import InvalidProblemError, Report, Violation, validate

_HOME = {
    "dequantise_int8": "activations",
    "quantise_int8": "activations",
    "read_bundle": "bundle",
    "write_bundle": "bundle",
    "CASES": "cases",
    "make_case": "cases",
    "Comparison": "comparator",
    "compare": "comparator",
    "k_slices": "compensation",
    "make_bias": "compensation",
    "make_offset": "compensation",
    "Diagnosis": "diagnosis",
    "diagnose": "diagnosis",
    "Golden": "golden_operator",
    "golden": "golden_operator",
    "Int4Weights": "int4",
    "pack_int4": "int4",
    "quantise_int4": "int4",
    "unpack_int4": "int4",
    "MxTensor": "mx",
    "dequantise_mx": "mx",
    "quantise_mx": "mx",
    "Location": "location",
    "locate": "location",
    "Operands": "operands",
    "Attributes": "problem",
    "Problem": "problem",
    "ProblemError": "problem",
    "TensorSpec": "problem",
    "RoutedRows": "routing",
    "compact": "routing",
    "from_topk": "routing",
    "local_experts": "routing",
    "local_group_list": "routing",
    "to_count": "routing",
    "to_cumsum": "routing",
    "to_replicas": "routing",
    "pack_scale_int64": "scales",
    "scale_loss": "scales",
    "unpack_scale_int64": "scales",
    "fill_with_sentinel": "sentinel",
    "sentinel_filled": "sentinel",
    "unwritten": "sentinel",
    "GoldenStages": "stages",
    "golden_stages": "stages",
    "InvalidProblemError": "validator",
    "Report": "validator",
    "Violation": "validator",
    "validate": "validator",
}

__all__ = [
    "CASES",
    "Attributes",
    "Comparison",
    "Diagnosis",
    "Golden",
    "GoldenStages",
    "Int4Weights",
    "InvalidProblemError",
    "Location",
    "MxTensor",
    "Operands",
    "Problem",
    "ProblemError",
    "Report",
    "RoutedRows",
    "TensorSpec",
    "Violation",
    "compact",
    "compare",
    "dequantise_int8",
    "dequantise_mx",
    "diagnose",
    "fill_with_sentinel",
    "from_topk",
    "golden",
    "golden_stages",
    "k_slices",
    "local_experts",
    "local_group_list",
    "locate",
    "make_bias",
    "make_case",
    "make_offset",
    "pack_int4",
    "pack_scale_int64",
    "quantise_int4",
    "quantise_int8",
    "quantise_mx",
    "read_bundle",
    "scale_loss",
    "sentinel_filled",
    "to_count",
    "to_cumsum",
    "to_replicas",
    "unpack_int4",
    "unpack_scale_int64",
    "unwritten",
    "validate",
    "write_bundle",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'reference' has no attribute {name!r}")
    # import_module binds a submodule of the same name here; the function must win.
    value = getattr(import_module(f"reference.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
