"""Forward, and forward + backward to the input embeddings, of one batch. Prints JSON."""
import json
import sys
import time

import torch
from llama import Llama

hidden, inner, layers, heads, vocabulary, batch, positions, threads = map(int, sys.argv[1:9])
torch.set_num_threads(threads)
torch.manual_seed(0)
model = Llama(hidden, inner, layers, heads, vocabulary)
x = torch.randn(batch, positions, hidden)


def best(run, repetitions=3):
    run()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def forward():
    with torch.no_grad():
        model.head(model.features(x)[0]).mean()


def both():
    leaf = x.clone().requires_grad_(True)
    model.head(model.features(leaf)[0]).mean().backward()


print(json.dumps({'version': torch.__version__, 'forwardMs': best(forward), 'bothMs': best(both)}))
