"""Runs parts of a benchmark on request, so that two implementations take turns.

The first line of stdin is JSON settings; the answer is PyTorch's version and its GFLOP/s on one large product. Each further
line names a part; the answer is its milliseconds and whatever the part returns.
"""
import json
import sys
import time

import torch


def measure_product(size=1024, repetitions=12):
    left, right, best = torch.randn(size, size), torch.randn(size, size), float('inf')
    for _ in range(repetitions):
        begin = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - begin)
    return 2e-9 * size**3 / best


def serve(create_parts):
    """`create_parts(settings)` returns a dictionary of functions."""
    settings = json.loads(sys.stdin.readline())
    torch.set_num_threads(settings['threads'])
    torch.manual_seed(0)
    parts = create_parts(settings)
    answer({'version': torch.__version__, 'gigaflops': measure_product()})
    for line in sys.stdin:
        begin = time.perf_counter()
        found = parts[line.strip()]()
        answer({'ms': 1000 * (time.perf_counter() - begin), **(found or {})})


def answer(value):
    print(json.dumps(value), flush=True)
