"""Where mismatches are said to be."""

from __future__ import annotations

import json

import numpy as np

from reference import golden, golden_stages, locate, make_case
from reference.location import spans


def test_rows_columns_and_experts_of_a_wrong_block() -> None:
    """c18_mxfp8: counts 3, 2; expert 1's rows alone are wrong, in columns 64 to 95."""
    call = make_case("c18_mxfp8")
    reference, stages = golden(call, magnitudes=True), golden_stages(call)
    out = reference.out.astype(np.float32)
    hit = np.unique(stages.targets[stages.experts == 1])
    out[hit, 64:96] += 1e6
    place = locate(out, reference.out, reference)
    assert place.mismatches == len(hit) * 32
    assert np.flatnonzero(place.rows).tolist() == hit.tolist()
    assert np.flatnonzero(place.columns).tolist() == list(range(64, 96))
    assert place.column_blocks() == [(64, 127, len(hit) * 32)]
    shares = {share.expert: share for share in place.experts}
    assert (shares[1].rows, shares[1].tokens_differ) == (2, shares[1].tokens)
    assert place.first_expert == (0 if shares[0].tokens_differ == shares[0].tokens else 1)
    assert place.heat.max() == place.row_ratio.max() > 1
    assert place.histogram.sum() == out.size
    json.dumps(place.to_json(), allow_nan=False)


def test_first_expert_is_the_one_all_of_whose_rows_differ() -> None:
    """Expert 2 of c4 left out: others share tokens with it, and are right elsewhere."""
    call = make_case("c4")
    reference, stages = golden(call, magnitudes=True), golden_stages(call)
    wrong = int(np.flatnonzero(reference.counts)[2])
    out = stages.scatter - golden_stages(call, wrong).scatter + golden_stages(call, wrong).shared
    place = locate(out.astype(np.float32), reference.out, reference)
    assert place.experts[wrong].tokens_differ == place.experts[wrong].tokens > 0
    whole = [s.expert for s in place.experts if s.mismatches and s.tokens_differ == s.tokens]
    assert place.first_expert == whole[0]
    assert wrong in whole


def test_nothing_differs() -> None:
    reference = golden(make_case("c10"), magnitudes=True)
    place = locate(reference.out.astype(np.float32), reference.out, reference)
    assert (place.mismatches, place.first_expert) == (0, None)
    assert place.describe() == ["no element differs by more than allowed"]


def test_spans() -> None:
    assert spans([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert spans(list(range(0, 20, 2))) == "0, 2, 4, 6, 8, 10 and 4 more ranges"
    assert spans([]) == "none"
