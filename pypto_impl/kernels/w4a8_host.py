# mypy: ignore-errors
# ruff: noqa
"""Grouped INT8 x INT4 matmul with finalize routing on A2/A3 (DAV_2201); weights arrive unpacked to INT8.

The first loop sets ``shift`` to 8 times the column sums of every expert that has rows, the second computes, per
expert and tile of rows:

    y = (x1 @ x2[e] - shift[e]) * scale[e] + bias[e] + rowsum(x1) * offset[e]
    out[row_index] += y * (pertoken_scale * logit)

The vendor's kernel multiplies the nibbles of x1 - 8 and leaves it to ``bias`` to undo that shift, so it appears
here too. The integer part is exact: it is formed in INT32 and rounded once to float32.
"""


def build(pypto, spec, options):
    """The jitted kernel of one :class:`pypto_impl.call.KernelSpec`; ``options`` are those of ``frontend.jit``."""
    tiles = spec.tiles
    k, n, e = spec.k, spec.n, spec.e
    rows_tile = tiles.rows
    has_bias, has_offset, has_shared = spec.has_bias, spec.has_offset, spec.has_shared
    bias_rows = e if has_bias else 1
    offset_rows = e if has_offset else 1
    any_rows = pypto.DYNAMIC

    @pypto.frontend.jit(**options)
    def grouped_w4a8_matmul_finalize_routing(
        x1: pypto.Tensor([any_rows, k], pypto.DT_INT8),
        x2: pypto.Tensor([e * k, n], pypto.DT_INT8),
        scale: pypto.Tensor([e, n], pypto.DT_FP32),
        bias: pypto.Tensor([bias_rows, n], pypto.DT_FP32),
        offset: pypto.Tensor([offset_rows, n], pypto.DT_FP32),
        pertoken_scale: pypto.Tensor([any_rows, 1], pypto.DT_FP32),
        logit: pypto.Tensor([any_rows, 1], pypto.DT_FP32),
        row_index: pypto.Tensor([any_rows], pypto.DT_INT64),
        ones: pypto.Tensor([16, k], pypto.DT_INT8),
        counts: pypto.Tensor([e], pypto.DT_INT32),
        starts: pypto.Tensor([e], pypto.DT_INT32),
        shift: pypto.Tensor([e, n], pypto.DT_INT32),
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
        for h in pypto.loop(e, name="columns", idx_name="h"):
            for _ in pypto.loop(pypto.min(counts[h], 1), name="busy"):
                w_all = pypto.view(x2, [k, n], [h * k, 0])
                sums = pypto.matmul(ones, w_all, pypto.DT_INT32)
                pypto.assemble(pypto.mul(sums[0:1, :], 8), [h, 0], shift)
        for g in pypto.loop(e, name="expert", idx_name="g"):
            count = counts[g]
            start = starts[g]
            for t in pypto.loop((count + rows_tile - 1) // rows_tile, name="tile", idx_name="t"):
                first = start + t * rows_tile
                height = pypto.min(count - t * rows_tile, rows_tile)
                x_tile = pypto.view(x1, [rows_tile, k], [first, 0], valid_shape=[height, k])
                w_tile = pypto.view(x2, [k, n], [g * k, 0])
                product = pypto.matmul(x_tile, w_tile, pypto.DT_INT32)
                exact = pypto.sub(product, pypto.view(shift, [1, n], [g, 0]))
                y = pypto.mul(pypto.cast(exact, pypto.DT_FP32), pypto.view(scale, [1, n], [g, 0]))
                if has_bias:
                    y = pypto.add(y, pypto.view(bias, [1, n], [g, 0]))
                if has_offset:
                    pypto.set_vec_tile_shapes(tiles.vector[0], 256)
                    x_half = pypto.cast(x_tile, pypto.DT_FP16)
                    x_sum = pypto.sum(pypto.cast(x_half, pypto.DT_FP32), -1, True)
                    pypto.set_vec_tile_shapes(tiles.vector[0], tiles.vector[1])
                    y = pypto.add(y, pypto.mul(pypto.view(offset, [1, n], [g, 0]), x_sum))
                factor = pypto.mul(
                    pypto.view(pertoken_scale, [rows_tile, 1], [first, 0], valid_shape=[height, 1]),
                    pypto.view(logit, [rows_tile, 1], [first, 0], valid_shape=[height, 1]),
                )
                target = pypto.view(row_index, [rows_tile], [first], valid_shape=[height])
                pypto.index_put_(out, (target,), pypto.mul(y, factor), accumulate=True)

    return grouped_w4a8_matmul_finalize_routing
