"""What the golden needs: each argument's data, in the shape that the formula reads.

The validator says all that phase 1 would; this is for calls that come to the golden without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from reference.operands import Operands

_ALWAYS = ("x1", "x2", "scale", "pertoken_scale", "group_list", "logit", "row_index")


def check_operands(operands: Operands) -> None:
    """Raise ``ValueError`` for the first argument that is missing or does not fit x1 and x2."""
    problem = operands.problem
    w4a8 = problem.platform_row.family == "a2a3"
    for name in (*_ALWAYS, "bias") if w4a8 else _ALWAYS:
        if operands[name] is None:
            raise ValueError(f"{name}: expected an array, got none; {problem.platform_row.title} needs one")
    for name, rank in (("x1", 2), ("x2", 3)):
        if len(problem.spec(name).shape) != rank:
            raise ValueError(f"{name}: expected {rank} axes, got shape {problem.spec(name).shape}")
    x2 = problem.spec("x2").shape
    held = x2[2] if problem.x2_is_transposed else x2[1]
    if held != problem.k:
        raise ValueError(f"x2: expected k = {problem.k} as x1 has, got k = {held} in shape {x2}")
    for name, shape in _shapes(operands, w4a8).items():
        array = operands[name]
        if array is not None and not _fits(array.shape, shape):
            wanted = ", ".join("?" if length is None else str(length) for length in shape)
            raise ValueError(f"{name}: expected shape ({wanted}{',' * (len(shape) == 1)}), got {array.shape}")


def _shapes(operands: Operands, w4a8: bool) -> dict[str, tuple[int | None, ...]]:
    """Shapes by the sizes of x1 and x2; None for what something else decides."""
    m, n, e = operands.problem.m, operands.problem.n, operands.problem.e
    return {
        "scale": (e, 1, n) if w4a8 else (e, None, None, 2),
        "bias": (e, n),
        "offset": (e, 1, n),
        "pertoken_scale": (m,) if w4a8 else (m, None, 2),
        "group_list": (e,),
        "shared_input": (None, n),
        "logit": (m,),
        "row_index": (m,),
    }


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(w in (None, s) for s, w in zip(shape, wanted, strict=True))
