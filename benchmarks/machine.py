"""What this machine can do at most: the limits that the other figures are held against.

Run from the repository: ``python benchmarks/machine.py [--json]``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np


def seconds(function: Callable[[], object], repeats: int = 5) -> float:
    """Median time of one call, after one that does not count."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def describe() -> str:
    """Processor and number of cores that this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def matmul_rate(rows: int, inner: int, columns: int) -> float:
    """GFLOP/s of NumPy's float32 matmul on all cores."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((rows, inner), dtype=np.float32)
    b = rng.standard_normal((inner, columns), dtype=np.float32)
    out = np.empty((rows, columns), np.float32)
    return 2e-9 * rows * inner * columns / seconds(lambda: np.matmul(a, b, out=out))


def read_rate() -> float:
    """GB/s read from memory by all cores together."""
    cores = len(os.sched_getaffinity(0))
    data = np.ones((cores, 1 << 25), np.float64)  # 256 MiB per core, far beyond the caches
    with ThreadPoolExecutor(cores) as pool:
        return 1e-9 * data.nbytes / seconds(lambda: list(pool.map(np.sum, data)))


def measure() -> dict[str, float]:
    """All figures by name."""
    return {
        "float32 matmul, 2048 square, GFLOP/s": matmul_rate(2048, 2048, 2048),
        "float32 matmul, 24 x 6144 x 4096, GFLOP/s": matmul_rate(24, 6144, 4096),
        "float32 matmul, 128 x 7168 x 4096, GFLOP/s": matmul_rate(128, 7168, 4096),
        "memory read, GB/s": read_rate(),
    }


def print_figures(figures: dict[str, float], as_json: bool) -> None:
    """One figure a line, or one JSON document."""
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    for name, figure in figures.items():
        print(f"{figure:12.3f}  {name}")


def main(measure_all: Callable[[], dict[str, float]], description: str | None) -> None:
    """Measure and print: the command line of a benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    print_figures(measure_all(), parser.parse_args().json)


if __name__ == "__main__":
    main(measure, __doc__)
