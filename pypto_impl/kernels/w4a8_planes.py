# mypy: ignore-errors
# ruff: noqa
"""Grouped INT8 x INT4 matmul with finalize routing on A2/A3 (DAV_2201); weights stay packed until the kernel reads them.

The INT32 words of x2 are seen as INT16, four columns each. Nibble j of every word makes plane j: a [k, n/4] matrix
that holds the columns 4*i + j. PyPTO 0.2.0 has no INT4 type and its cost model no shifts, so a nibble is taken by
arithmetic: with p the word as float32,

    up = floor(p / 16);  nibble = p - 16 * up;  value = nibble - 16 * floor(nibble / 8);  p = up

which is exact, since |p| <= 32768. Planes are multiplied one by one; the arithmetic of a row is that of
``w4a8_host``. ``out`` and the shared input are seen by plane as well: row j * batch + b of ``out`` is plane j of row b,
and ``row_index`` and ``shared_rows`` hold one such run of rows per plane. Scale, bias and offset hold the columns of
plane j at j * n/4.
"""


def build(pypto, spec, options):
    """The jitted kernel of one :class:`pypto_impl.call.KernelSpec`; ``options`` are those of ``frontend.jit``."""
    tiles = spec.tiles
    k, e = spec.k, spec.e
    n = spec.n
    width = n // 4
    rows_tile = tiles.rows
    unpack_columns = min(128, (width + 31) // 32 * 32)
    has_bias, has_offset, has_shared = spec.has_bias, spec.has_offset, spec.has_shared
    bias_rows = e if has_bias else 1
    offset_rows = e if has_offset else 1
    any_rows = pypto.DYNAMIC

    @pypto.frontend.jit(**options)
    def grouped_w4a8_matmul_finalize_routing_packed(
        x1: pypto.Tensor([any_rows, k], pypto.DT_INT8),
        x2: pypto.Tensor([e * k, width], pypto.DT_INT16),
        scale: pypto.Tensor([e, n], pypto.DT_FP32),
        bias: pypto.Tensor([bias_rows, n], pypto.DT_FP32),
        offset: pypto.Tensor([offset_rows, n], pypto.DT_FP32),
        pertoken_scale: pypto.Tensor([any_rows, 1], pypto.DT_FP32),
        logit: pypto.Tensor([any_rows, 1], pypto.DT_FP32),
        row_index: pypto.Tensor([any_rows], pypto.DT_INT64),
        ones: pypto.Tensor([16, k], pypto.DT_INT8),
        counts: pypto.Tensor([e], pypto.DT_INT32),
        starts: pypto.Tensor([e], pypto.DT_INT32),
        shared_input: pypto.Tensor([any_rows, width], pypto.DT_BF16),
        shared_weight: pypto.Tensor([any_rows, 1], pypto.DT_FP32),
        shared_rows: pypto.Tensor([any_rows], pypto.DT_INT64),
        out: pypto.Tensor([4 * spec.batch, width], pypto.DT_FP32),
    ):
        pypto.set_cube_tile_shapes(list(tiles.cube_m), list(tiles.cube_k), list(tiles.cube_n))
        pypto.set_vec_tile_shapes(tiles.vector[0], tiles.vector[1])
        m = x1.shape[0]
        if has_shared:
            shared_count = shared_input.shape[0]
            for s in pypto.loop((shared_count + rows_tile - 1) // rows_tile, name="shared", idx_name="s"):
                first = s * rows_tile
                height = pypto.min(shared_count - first, rows_tile)
                rows = pypto.view(shared_input, [rows_tile, width], [first, 0], valid_shape=[height, width])
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
                factor = pypto.mul(
                    pypto.view(pertoken_scale, [rows_tile, 1], [first, 0], valid_shape=[height, 1]),
                    pypto.view(logit, [rows_tile, 1], [first, 0], valid_shape=[height, 1]),
                )
                if has_offset:
                    pypto.set_vec_tile_shapes(tiles.vector[0], 256)
                    x_half = pypto.cast(x_tile, pypto.DT_FP16)
                    x_sum = pypto.sum(pypto.cast(x_half, pypto.DT_FP32), -1, True)
                pypto.set_vec_tile_shapes(64, unpack_columns)
                p = pypto.cast(pypto.view(x2, [k, width], [g * k, 0]), pypto.DT_FP32)
                for j in range(4):
                    pypto.set_vec_tile_shapes(64, unpack_columns)
                    floor_16 = pypto.cast(pypto.mul(p, 1.0 / 16), pypto.DT_INT32, pypto.CastMode.CAST_FLOOR)
                    up = pypto.cast(floor_16, pypto.DT_FP32)
                    nibble = pypto.sub(p, pypto.mul(up, 16.0))
                    floor_8 = pypto.cast(pypto.mul(nibble, 1.0 / 8), pypto.DT_INT32, pypto.CastMode.CAST_FLOOR)
                    value = pypto.sub(nibble, pypto.mul(pypto.cast(floor_8, pypto.DT_FP32), 16.0))
                    plane = pypto.cast(pypto.cast(value, pypto.DT_FP16), pypto.DT_INT8)
                    p = up
                    pypto.set_vec_tile_shapes(tiles.vector[0], tiles.vector[1])
                    sums = pypto.matmul(ones, plane, pypto.DT_INT32)
                    shift = pypto.mul(sums[0:1, :], 8)
                    exact = pypto.sub(pypto.matmul(x_tile, plane, pypto.DT_INT32), shift)
                    y = pypto.mul(pypto.cast(exact, pypto.DT_FP32), pypto.view(scale, [1, width], [g, j * width]))
                    if has_bias:
                        y = pypto.add(y, pypto.view(bias, [1, width], [g, j * width]))
                    if has_offset:
                        y = pypto.add(y, pypto.mul(pypto.view(offset, [1, width], [g, j * width]), x_sum))
                    target = pypto.view(row_index, [rows_tile], [j * m + first], valid_shape=[height])
                    pypto.index_put_(out, (target,), pypto.mul(y, factor), accumulate=True)

    return grouped_w4a8_matmul_finalize_routing_packed
