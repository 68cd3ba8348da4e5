"""One search step in eager PyTorch: two gradients with respect to the one-hot suffix, then candidates scored in batches.

Keys and values of the prompt are computed once and expanded over a batch, as nanoGCG does. Weights are random; only the
work matters here.
"""
import time
from functools import partial

import torch
import torch.nn.functional as F
from llama import Layer, Llama, Norm
from serve import serve
from torch import nn


class Eagle(nn.Module):
    """One layer on [embedding; feature] and the target's output projection. Row t pairs the state at t with token t + 1."""

    def __init__(self, given, target):
        super().__init__()
        hidden = given['hidden']
        self.fuse, self.layer = nn.Linear(2 * hidden, hidden), Layer(hidden, given['inner'], given['heads'])
        self.project = target.head

    def forward(self, embedded, features, taps, start=0, past=None):
        return self.layer(self.fuse(torch.cat([embedded, features], dim=-1)), start, past)


class Eagle3(nn.Module):
    """Three taps fused, one layer on [norm(embedding); norm(feature)], and an output projection of its own."""

    def __init__(self, given, target):
        super().__init__()
        hidden = given['hidden']
        self.fuse = nn.Linear(3 * hidden, hidden, bias=False)
        self.layer = Layer(hidden, given['inner'], given['heads'], 2 * hidden)
        self.norm, self.project = Norm(hidden), nn.Sequential(Norm(hidden), nn.Linear(hidden, given['vocabulary'], bias=False))

    def forward(self, embedded, features, taps, start=0, past=None):
        x = self.fuse(torch.cat(taps, dim=-1))
        return self.layer(x, start, past, torch.cat([self.layer.before(embedded), self.norm(x)], dim=-1))


def create_parts(given):
    count, before, suffix, after, window = (given[name] for name in ('candidates', 'before', 'suffix', 'after', 'window'))
    target = Llama(given)
    drafter = {'eagle': Eagle, 'eagle3': Eagle3}[given['drafter']](given, target).requires_grad_(False)
    draw = partial(torch.randint, 0, given['vocabulary'])
    prompt, answer = draw((before,)), draw((window,))
    rest = torch.cat([draw((after,)), answer[:-1]])
    clean = torch.randn(window, given['vocabulary']).float().log_softmax(-1)
    start, last = before - 1, prompt[-1:]
    with torch.no_grad():
        features, taps, past = target.read(target.embedding(prompt[:-1])[None])
        _, draft_past = drafter(target.embedding(prompt[1:])[None], features, taps)

    def losses(embedded):
        """embedded [batch, length, hidden]; degradation and divergence of each row, and where the answer is kept."""
        features, taps, _ = target.read(embedded, start, past)
        logits = target.head(features[:, -window:]).float()
        distribution = logits.log_softmax(-1)
        divergence = (clean.exp() * (clean - distribution)).sum(-1).mean(-1)
        drafted, _ = drafter(embedded[:, 1:], features[:, :-1], [tap[:, :-1] for tap in taps], start, draft_past)
        proposal = drafter.project(drafted[:, -(window - 1):]).float().log_softmax(-1)
        kept = torch.minimum(distribution[:, 1:].exp(), proposal.exp()).sum(-1)
        return (1 - kept).mean(-1), divergence, logits.argmax(-1) == answer, proposal.argmax(-1) == answer[1:]

    def gradient():
        table = target.embedding.weight
        hot = F.one_hot(draw((suffix,)), given['vocabulary']).to(table.dtype).requires_grad_(True)
        embedded = torch.cat([target.embedding(last), hot @ table, target.embedding(rest)])[None]
        degradation, divergence, _, _ = losses(embedded)
        torch.autograd.grad(degradation.sum(), hot, retain_graph=True)[0].cpu()
        torch.autograd.grad(divergence.sum(), hot)[0].cpu()

    def scoring(batch):
        with torch.no_grad():
            for chunk in draw((count, suffix)).split(batch):
                rows = len(chunk)
                ids = torch.cat([last.expand(rows, -1), chunk, rest.expand(rows, -1)], dim=1)
                for value in losses(target.embedding(ids)):
                    value.cpu()

    def choose_batch():
        """The fastest on a GPU, each after a first run."""
        times = {}
        for batch in (32, 64, 128, 256, 512):
            try:
                scoring(batch)
                begin = time.perf_counter()
                scoring(batch)
                times[batch] = time.perf_counter() - begin
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
        return min(times, key=times.get)

    batch = choose_batch() if given.get('gpu') else 64
    # Drawing candidates costs PyTorch nothing here.
    return {'gradient': gradient, 'candidates': lambda: None, 'scoring': partial(scoring, batch)}


serve(create_parts)
