"""The one table of hypotheses: what may have gone wrong, in words, and how its result is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reference.diagnosis import addends, precision, routing, scales, weights
from reference.diagnosis.call import Call, Outcome


@dataclass(frozen=True)
class Hypothesis:
    """One kind of mistake.

    ``outcomes`` yields the results of its variants on a call, nothing where it does not apply.  ``general``
    ones fit many causes: they are named only where no other fits.
    """

    name: str
    title: str
    advice: str
    outcomes: Callable[[Call], Iterator[Outcome]]
    general: bool = False


HYPOTHESES: tuple[Hypothesis, ...] = (
    Hypothesis(
        "nibbles-swapped",
        "4-bit values read high nibble first",
        "The even index is in the low nibble of each byte; pack and unpack with the low nibble first.",
        weights.nibbles_swapped,
    ),
    Hypothesis(
        "int4-misread",
        "INT4 words read wrongly",
        "Element j of a word is in bits 4j to 4j+3, in two's complement.",
        weights.int4_misread,
    ),
    Hypothesis(
        "weights-of-other-expert",
        "weights of another expert",
        "Expert g multiplies the rows of group g with x2[g]; check the offset g·k·n (packed: in bytes).",
        weights.weights_of_other_expert,
    ),
    Hypothesis(
        "scales-of-other-expert",
        "scales of another expert",
        "Expert g takes scale[g]; check the offset of its block.",
        scales.scales_of_other_expert,
    ),
    Hypothesis(
        "bias-of-other-expert",
        "bias of another expert",
        "Expert g takes bias[g].",
        addends.bias_of_other_expert,
    ),
    Hypothesis(
        "weight-layout",
        "weight bytes read in the other layout, (e, k, n) or (e, n, k)",
        "transpose_x2 says which: true means x2 is (e, n, k).",
        weights.weight_layout,
    ),
    Hypothesis(
        "formats-exchanged",
        "FP8 codes read as the other FP8 kind",
        "Check the dtype of x1 and x2: E4M3 and E5M2 have the same width.",
        weights.formats_exchanged,
    ),
    Hypothesis(
        "tail-of-k",
        "the last columns of x1 left out",
        "k need not be a multiple of the tile; the last tile has to be multiplied too.",
        weights.tail_of_k_left_out,
    ),
    Hypothesis(
        "scale-slots",
        "the two scales of 64 columns exchanged",
        "Block j = k // 32 takes entry [j // 2, j % 2] of the pairs.",
        scales.scale_slots_exchanged,
    ),
    Hypothesis(
        "scale-slot-ignored",
        "one scale used for 64 columns",
        "Every 32 columns have a scale of their own: entry [k // 64, (k // 32) % 2].",
        scales.scale_slot_ignored,
    ),
    Hypothesis(
        "scale-left-out",
        "scale not applied",
        "Both sides are dequantised: (x · pertoken_scale) · (w · scale).",
        scales.scale_left_out,
    ),
    Hypothesis(
        "scale-off-by-one",
        "E8M0 bytes off by one",
        "An E8M0 byte b means 2^(b-127).",
        scales.scale_off_by_one,
    ),
    Hypothesis(
        "scale-linear",
        "E8M0 bytes read as numbers",
        "An E8M0 byte b means 2^(b-127), not b.",
        scales.scale_read_linearly,
    ),
    Hypothesis(
        "scale-sides",
        "the scales of x1 and x2 exchanged",
        "pertoken_scale belongs to x1, scale to x2.",
        scales.sides_exchanged,
    ),
    Hypothesis(
        "scale-layout",
        "scale bytes read in another order of axes",
        "scale is (e, k/64, n, 2), and (e, n, k/64, 2) with transpose_x2; pertoken_scale is (m, k/64, 2).",
        scales.scale_layout,
    ),
    Hypothesis(
        "scale-block",
        "the scale of a neighbouring block of 32 columns",
        "Column k takes the scale of block k // 32.",
        scales.scale_block_shifted,
    ),
    Hypothesis(
        "scale-bits",
        "the INT64 scale misread",
        "The low word holds the bits of a float32, of which the device keeps the top 19.",
        scales.scale_bits_misread,
    ),
    Hypothesis(
        "nibble-split",
        "the int8 activations split wrongly",
        "x = 16·hi + lo + 8 with hi = floor(x / 16) and lo = (x & 15) - 8.",
        precision.nibble_split,
    ),
    Hypothesis(
        "x1-destroyed",
        "x1 was overwritten by an earlier run",
        "On Atlas A2 and A3 the operator writes into x1; pass a fresh copy to each run.",
        precision.x1_destroyed,
    ),
    Hypothesis(
        "counts-as-totals",
        "group_list: counts read as running totals",
        "Pass group_list_type=1, or convert the list with a cumulative sum.",
        routing.counts_as_totals,
    ),
    Hypothesis(
        "totals-as-counts",
        "group_list: running totals read as counts",
        "Pass group_list_type=0, or convert the list with differences that begin at 0.",
        routing.totals_as_counts,
    ),
    Hypothesis(
        "count-without-first",
        "group_list: counts made by differences without a leading 0",
        "The first count is the first total itself.",
        routing.count_without_first,
    ),
    Hypothesis(
        "group-boundary",
        "boundaries between experts one row off",
        "Expert g takes rows total[g-1] to total[g], the upper end excluded.",
        routing.group_boundary_shifted,
    ),
    Hypothesis(
        "rows-shifted",
        "rows of x1 or their scales one row off",
        "Row i of x1, pertoken_scale, logit and row_index belong together.",
        routing.rows_shifted,
    ),
    Hypothesis(
        "tail-rows",
        "rows behind the sum of group_list processed",
        "Only the first sum(group_list) rows of x1 take part.",
        routing.tail_rows_included,
    ),
    Hypothesis(
        "row-index-reversed",
        "row_index read from the end",
        "Row i of x1 is added to row row_index[i] of out.",
        routing.row_index_reversed,
    ),
    Hypothesis(
        "row-index-left-out",
        "row_index not used",
        "Row i of x1 is added to row row_index[i] of out; rows are in expert order, not in token order.",
        routing.row_index_left_out,
    ),
    Hypothesis(
        "row-index-inverted",
        "the inverse permutation used as row_index",
        "row_index[i] is the row of out that row i of x1 is added to.",
        routing.row_index_inverted,
    ),
    Hypothesis(
        "last-write-wins",
        "rows of out overwritten instead of added to",
        "Several rows of x1 may have the same row_index: add them all (np.add.at, atomic adds).",
        routing.last_write_wins,
    ),
    Hypothesis(
        "old-output",
        "added to what out held before",
        "Out has to be initialised (zero, shared rows) before the scatter.",
        routing.accumulated_into_old,
    ),
    Hypothesis(
        "expert-missing",
        "an expert's rows missing",
        "Look at the expert's range of rows and at the guard for empty experts.",
        routing.expert_missing,
    ),
    Hypothesis(
        "edge-rows-missing",
        "the first or last row of every expert missing",
        "An expert's number of rows need not be a multiple of the tile.",
        routing.edge_rows_missing,
    ),
    Hypothesis(
        "logit-left-out",
        "logit not applied, or twice",
        "Each row is multiplied by logit once, after the bias.",
        routing.logit_left_out,
    ),
    Hypothesis(
        "logit-order",
        "logit in another order than the rows",
        "logit[i] belongs to row i of x1: sort it by expert together with the rows.",
        routing.logit_order,
    ),
    Hypothesis(
        "pertoken-left-out",
        "pertoken_scale not applied, or twice",
        "Each row of W4A8 is multiplied by pertoken_scale · logit.",
        addends.pertoken_left_out,
    ),
    Hypothesis(
        "pertoken-order",
        "pertoken_scale in another order than the rows",
        "pertoken_scale[i] belongs to row i of x1: sort it by expert together with the rows.",
        addends.pertoken_order,
    ),
    Hypothesis("bias-left-out", "bias not added", "Bias is added before logit.", addends.bias_left_out),
    Hypothesis(
        "bias-factor",
        "bias off by a factor",
        "In W4A8 the bias is 8 · Σ_k w·s of the expert's column; it is added once.",
        addends.bias_scaled,
    ),
    Hypothesis(
        "bias-without-scale",
        "bias without the scale, or with its square",
        "In W4A8 the bias is 8 · Σ_k w·s: the scale of the column is in it once.",
        addends.bias_without_scale,
    ),
    Hypothesis(
        "bias-recomputed",
        "the call's bias is not 8 · Σ_k w·s, the result's is",
        "Recompute the bias of the call from its weights and scales.",
        addends.bias_recomputed,
    ),
    Hypothesis(
        "compensation-left-out",
        "the shift by 8 of the nibble split not there",
        "The device computes s · (Σ x·w - 8 · Σ w) + bias; a kernel without the split must not add the bias.",
        addends.compensation_left_out,
    ),
    Hypothesis(
        "bias-after-logit",
        "bias added after the row's factors",
        "y = (Σ x·w + bias) · logit: the bias is inside.",
        addends.bias_after_logit,
    ),
    Hypothesis(
        "offset",
        "offset wrong",
        "offset is antiquant_offset · scale, and is multiplied by the row's sum of x1.",
        addends.offset_wrong,
    ),
    Hypothesis(
        "shared-left-out",
        "shared input not added",
        "Rows shared_input_offset onwards start from shared_input · shared_input_weight.",
        addends.shared_left_out,
    ),
    Hypothesis(
        "shared-weight",
        "shared_input_weight not applied, or twice",
        "Shared rows are multiplied by shared_input_weight once.",
        addends.shared_weight,
    ),
    Hypothesis(
        "shared-offset",
        "shared rows at another row of out",
        "Shared row i goes to row shared_input_offset + i; the offset counts rows.",
        addends.shared_offset,
    ),
    Hypothesis(
        "shared-scatter",
        "shared rows scattered, or set after the scatter",
        "Shared rows are the initial value of out and do not go through row_index.",
        addends.shared_through_row_index,
    ),
    Hypothesis(
        "half-partials",
        "partial products of W4A8 beyond half precision",
        "The device stores A·s and B·s in half precision, which ends at 65504: make the scales smaller.",
        precision.half_partials,
    ),
    Hypothesis(
        "narrow-products",
        "products rounded to 16 bits",
        "Keep products in float32 until bias and logit are applied.",
        precision.narrow_products,
    ),
    Hypothesis(
        "narrow-out",
        "the result rounded to 16 bits",
        "Out is float32.",
        precision.narrow_out,
    ),
    Hypothesis(
        "constant-factor",
        "the result is off by a constant factor",
        "Look for a scale, weight or factor applied once too often or not at all.",
        precision.constant_factor,
        general=True,
    ),
)
