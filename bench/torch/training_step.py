"""Training steps in eager PyTorch, one whenever a line comes in, so that two implementations can be timed by turns.

The first line is JSON: models, name, threads, objective, adam, and tokens [text][position], all of which are learnt. It is
answered with the version and what a product of matrices reaches here; every further line with the milliseconds of a step:
the target's pass, the gradients, the update.
"""
import json
import sys
import time

import torch
from training import Learner, load_target


def measure_product(size=1024, repetitions=6):
    left, right, best = torch.randn(size, size), torch.randn(size, size), float('inf')
    for _ in range(repetitions):
        begin = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - begin)
    return 2e-9 * size**3 / best


def answer(value):
    print(json.dumps(value), flush=True)


given = json.loads(sys.stdin.readline())
torch.set_num_threads(given['threads'])
target = load_target(f"{given['models']}/target")
learner = Learner(given['name'], f"{given['models']}/{given['name']}", target, given)
tokens = torch.tensor(given['tokens'])
weights = torch.ones(tokens.shape)
answer({'version': torch.__version__, 'gigaflops': measure_product()})
for _ in sys.stdin:
    begin = time.perf_counter()
    loss, _ = learner.losses(learner.read(tokens), weights)
    loss.backward()
    learner.update(tokens.numel())
    answer({'ms': 1000 * (time.perf_counter() - begin), 'loss': loss.item()})
