"""One search step in eager PyTorch: two gradients with respect to the one-hot suffix, then B candidates scored.

`plain` runs the whole sequence every time; `prefix-cache` computes keys and values of the prompt once and expands them
over the batch, as nanoGCG does. The drafter is an EAGLE head: one layer on [embedding; feature] and the target's output
projection. Weights are random; only the work matters here.
"""
import torch
from llama import Layer, Llama
from serve import serve


def create_parts(given):
    names = ('hidden', 'inner', 'layers', 'heads', 'vocabulary', 'candidates', 'before', 'suffix', 'after', 'window')
    hidden, inner, layers, heads, vocabulary, count, before, suffix, after, window = (given[name] for name in names)
    target = Llama(hidden, inner, layers, heads, vocabulary)
    fuse, draft = torch.nn.Linear(2 * hidden, hidden), Layer(hidden, inner, heads)
    for module in (fuse, draft):
        module.requires_grad_(False)
    prompt = torch.randint(0, vocabulary, (before,))
    rest = torch.randint(0, vocabulary, (after + window - 1,))
    clean = torch.randn(window, vocabulary).log_softmax(-1)
    use_cache = given['variant'] == 'prefix-cache'

    def losses(embedded, start, past, draft_past):
        """embedded [batch, length, hidden]; degradation and divergence of each row of the batch."""
        features, _ = target.features(embedded, start, past)
        distribution = target.head(features[:, -window:]).log_softmax(-1)
        divergence = (clean.exp() * (clean - distribution)).sum(-1).mean(-1)
        pairs = fuse(torch.cat([embedded[:, 1:], features[:, :-1]], dim=-1))
        length = pairs.shape[1]
        frequencies = 10000.0 ** (-torch.arange(0, target.size, 2).float() / target.size)
        angles = torch.arange(start, start + length).float()[:, None] * frequencies
        mask = torch.full((length, start + length), float('-inf')).triu(start + 1)
        drafted, _ = draft(pairs, angles.cos(), angles.sin(), mask, draft_past)
        proposal = target.head(drafted[:, -(window - 1):]).log_softmax(-1)
        kept = torch.minimum(distribution[:, 1:].exp(), proposal.exp()).sum(-1)
        return (1 - kept).mean(-1), divergence

    def prefix():
        if not use_cache:
            return 0, None, None
        with torch.no_grad():
            embedded = target.embedding(prompt[:-1])[None]
            features, past = target.features(embedded)
            pairs = fuse(torch.cat([target.embedding(prompt[1:])[None], features], dim=-1))
            frequencies = 10000.0 ** (-torch.arange(0, target.size, 2).float() / target.size)
            angles = torch.arange(before - 1).float()[:, None] * frequencies
            mask = torch.full((before - 1, before - 1), float('-inf')).triu(1)
            _, draft_past = draft(pairs, angles.cos(), angles.sin(), mask)
        return before - 1, past, draft_past

    start, past, draft_past = prefix()
    head = prompt[-1:] if use_cache else prompt

    def gradient():
        hot = torch.nn.functional.one_hot(torch.randint(0, vocabulary, (suffix,)), vocabulary).float().requires_grad_(True)
        embedded = torch.cat([target.embedding(head), hot @ target.embedding.weight, target.embedding(rest)])[None]
        degradation, divergence = losses(embedded, start, past, draft_past)
        torch.autograd.grad(degradation.sum(), hot, retain_graph=True)
        torch.autograd.grad(divergence.sum(), hot)

    def scoring():
        with torch.no_grad():
            tokens = torch.randint(0, vocabulary, (count, suffix))
            for chunk in tokens.split(64):
                batch = chunk.shape[0]
                ids = torch.cat([head.expand(batch, -1), chunk, rest.expand(batch, -1)], dim=1)
                losses(target.embedding(ids), start, past, draft_past)

    return {'gradient': gradient, 'scoring': scoring}


serve(create_parts)
