"""Runs parts of a benchmark on request, so that two implementations take turns.

The first line of stdin is JSON settings; the answer is PyTorch's version and its GFLOP/s on one large product. Each further
line names a part; the answer is its milliseconds and whatever the part returns. With `gpu` in the settings, everything is
made on the GPU in bfloat16.
"""
import json
import sys
import time

import torch


def measure_product(use_gpu):
    size, best = 8192 if use_gpu else 1024, float('inf')
    left, right = torch.randn(size, size), torch.randn(size, size)
    for _ in range(12):
        best = min(best, measure(lambda: left @ right, use_gpu)[0])
    return 2e-6 * size**3 / best


def measure(part, use_gpu):
    """Milliseconds and what the part returns."""
    begin = time.perf_counter()
    found = part()
    if use_gpu:
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begin), found


def serve(create_parts):
    """`create_parts(settings)` returns a dictionary of functions."""
    settings = json.loads(sys.stdin.readline())
    use_gpu = settings.get('gpu', False)
    if use_gpu:
        torch.set_default_device('cuda')
        torch.set_default_dtype(torch.bfloat16)
    torch.set_num_threads(settings['threads'])
    torch.manual_seed(0)
    parts = create_parts(settings)
    answer({'version': torch.__version__, 'gigaflops': measure_product(use_gpu)})
    for line in sys.stdin:
        ms, found = measure(parts[line.strip()], use_gpu)
        answer({'ms': ms, **(found or {})})


def answer(value):
    print(json.dumps(value), flush=True)
