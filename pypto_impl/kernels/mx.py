# mypy: ignore-errors
# ruff: noqa
"""Grouped MX matmul with finalize routing: MXFP8 and MXFP4 on Ascend 950 (DAV_3510).

One trace serves every routing: group sizes are read from ``counts`` and ``starts`` while the kernel runs, and the
row extents of the activations, of the shared input and of ``out`` are dynamic. Per expert and tile of rows:

    y = scaled_mm(x1, x2[e], pertoken_scale, scale[e]) + bias[e]
    out[row_index] += y * logit

``out`` arrives zeroed. The shared rows are added to it first, at ``shared_rows``, times ``shared_weight``.
Weights and scales come with their expert axis folded into the next one, so that slicing an expert is a plain
rank-2 view and needs no vector operation.
"""


def build(pypto, spec, options):
    """The jitted kernel of one :class:`pypto_impl.call.KernelSpec`; ``options`` are those of ``frontend.jit``."""
    tiles = spec.tiles
    k, n, e = spec.k, spec.n, spec.e
    pairs = k // 64
    rows_tile = tiles.rows
    transposed, has_bias, has_shared = spec.transpose_x2, spec.has_bias, spec.has_shared
    element = {
        "float8_e4m3fn": pypto.DT_FP8E4M3,
        "float8_e5m2": pypto.DT_FP8E5M2,
        "float4_e2m1fn": pypto.DT_FP4_E2M1X2,
    }[spec.element]
    weight_shape = [e * n, k] if transposed else [e * k, n]
    scale_shape = [e * n, pairs, 2] if transposed else [e * pairs, n, 2]
    bias_rows = e if has_bias else 1
    any_rows = pypto.DYNAMIC

    @pypto.frontend.jit(**options)
    def grouped_mx_matmul_finalize_routing(
        x1: pypto.Tensor([any_rows, k], element),
        x2: pypto.Tensor(weight_shape, element),
        scale: pypto.Tensor(scale_shape, pypto.DT_FP8E8M0),
        pertoken_scale: pypto.Tensor([any_rows, pairs, 2], pypto.DT_FP8E8M0),
        logit: pypto.Tensor([any_rows, 1], pypto.DT_FP32),
        row_index: pypto.Tensor([any_rows], pypto.DT_INT64),
        counts: pypto.Tensor([e], pypto.DT_INT32),
        starts: pypto.Tensor([e], pypto.DT_INT32),
        bias: pypto.Tensor([bias_rows, n], pypto.DT_BF16),
        shared_input: pypto.Tensor([any_rows, n], pypto.DT_BF16),
        shared_weight: pypto.Tensor([any_rows, 1], pypto.DT_FP32),
        shared_rows: pypto.Tensor([any_rows], pypto.DT_INT64),
        out: pypto.Tensor([spec.batch, n], pypto.DT_FP32),
    ):
        pypto.set_cube_tile_shapes(list(tiles.cube_m), list(tiles.cube_k), list(tiles.cube_n))
        pypto.set_vec_tile_shapes(tiles.vector[0], tiles.vector[1])
        if has_shared:
            shared_count = shared_input.shape[0]
            for s in pypto.loop((shared_count + rows_tile - 1) // rows_tile, name="shared", idx_name="s"):
                first = s * rows_tile
                height = pypto.min(shared_count - first, rows_tile)
                rows = pypto.view(shared_input, [rows_tile, n], [first, 0], valid_shape=[height, n])
                weight = pypto.view(shared_weight, [rows_tile, 1], [first, 0], valid_shape=[height, 1])
                target = pypto.view(shared_rows, [rows_tile], [first], valid_shape=[height])
                initial = pypto.mul(pypto.cast(rows, pypto.DT_FP32), weight)
                pypto.index_put_(out, (target,), initial, accumulate=True)
        for g in pypto.loop(e, name="expert", idx_name="g"):
            count = counts[g]
            start = starts[g]
            for t in pypto.loop((count + rows_tile - 1) // rows_tile, name="tile", idx_name="t"):
                first = start + t * rows_tile
                height = pypto.min(count - t * rows_tile, rows_tile)
                x_tile = pypto.view(x1, [rows_tile, k], [first, 0], valid_shape=[height, k])
                x_scale = pypto.view(pertoken_scale, [rows_tile, pairs, 2], [first, 0, 0], valid_shape=[height, pairs, 2])
                if transposed:
                    w_tile = pypto.view(x2, [n, k], [g * n, 0])
                    w_scale = pypto.view(scale, [n, pairs, 2], [g * n, 0, 0])
                else:
                    w_tile = pypto.view(x2, [k, n], [g * k, 0])
                    w_scale = pypto.view(scale, [pairs, n, 2], [g * pairs, 0, 0])
                y = pypto.scaled_mm(
                    x_tile, w_tile, pypto.DT_FP32, x_scale, w_scale, b_trans=transposed, scale_b_trans=transposed
                )
                if has_bias:
                    y = pypto.add(y, pypto.cast(pypto.view(bias, [1, n], [g, 0]), pypto.DT_FP32))
                y = pypto.mul(y, pypto.view(logit, [rows_tile, 1], [first, 0], valid_shape=[height, 1]))
                target = pypto.view(row_index, [rows_tile], [first], valid_shape=[height])
                pypto.index_put_(out, (target,), y, accumulate=True)

    return grouped_mx_matmul_finalize_routing
