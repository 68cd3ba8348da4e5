"""One search step in PyTorch on a GPU, in bfloat16 with sdpa: two gradients with respect to the one-hot suffix by
autograd, then candidates scored in batches. Keys and values of the prompt are computed once and expanded over a batch,
as nanoGCG does. The drafter is an EAGLE-3 head: three taps fused, one layer on [norm(embedding); norm(feature)], and an
output projection of its own. Weights are random; only the work matters. The last line printed is JSON.
"""
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

settings = json.loads(sys.argv[1])
hidden, inner = settings['hidden_size'], settings['intermediate_size']
layers, heads, vocabulary = settings['num_hidden_layers'], settings['num_attention_heads'], settings['vocab_size']
before, suffix, tail, window = settings['prompt'], settings['suffix'], settings['tail'], settings['window']
count = settings['candidates']
size = hidden // heads
cuda = torch.cuda.is_available()
device = torch.device('cuda' if cuda else 'cpu')
dtype = torch.bfloat16
torch.manual_seed(0)
torch.set_grad_enabled(False)


def weight(*shape):
    return (torch.randn(*shape, device=device, dtype=dtype) * 0.02).requires_grad_(False)


def make_layer(width=hidden):
    return {
        'before': torch.ones(hidden, device=device, dtype=dtype),
        'after': torch.ones(hidden, device=device, dtype=dtype),
        'qkv': weight(3 * hidden, width),
        'o': weight(hidden, hidden),
        'gate_up': weight(2 * inner, hidden),
        'down': weight(hidden, inner),
    }


embedding, output = weight(vocabulary, hidden), weight(vocabulary, hidden)
stack = [make_layer() for _ in range(layers)]
head, fuse, head_output = make_layer(2 * hidden), weight(hidden, 3 * hidden), weight(vocabulary, hidden)
ones = torch.ones(hidden, device=device, dtype=dtype)
taps = [2, layers // 2, layers - 3]
frequencies = 10000.0 ** (-torch.arange(0, size, 2, device=device).float() / size)


def norm(x, scale):
    return F.rms_norm(x, (hidden,), scale, 1e-5)


def angles(start, length):
    all_angles = torch.arange(start, start + length, device=device).float()[:, None] * frequencies
    return all_angles.cos().to(dtype), all_angles.sin().to(dtype)


def turn(x, cos, sin):
    left, right = x[..., : size // 2], x[..., size // 2 :]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


def attend(x, layer, turned, mask, past):
    batch, length, _ = x.shape
    q, k, v = F.linear(x, layer['qkv']).view(batch, length, 3, heads, size).permute(2, 0, 3, 1, 4)
    q, k = turn(q, *turned), turn(k, *turned)
    new = (k, v)
    if past is not None:
        k = torch.cat([past[0].expand(batch, -1, -1, -1), k], dim=2)
        v = torch.cat([past[1].expand(batch, -1, -1, -1), v], dim=2)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return F.linear(mixed.transpose(1, 2).reshape(batch, length, hidden), layer['o']), new


def feed_forward(x, layer):
    gate, up = F.linear(x, layer['gate_up']).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, layer['down'])


def run_target(x, start, past):
    """x [batch, length, hidden] behind `start` cached positions: features, the taps side by side, new keys and values."""
    length = x.shape[1]
    turned = angles(start, length)
    mask = torch.ones(length, start + length, dtype=torch.bool, device=device).tril(start)
    tapped, rows = {}, []
    for index, layer in enumerate(stack):
        if index in taps:
            tapped[index] = x
        mixed, new = attend(norm(x, layer['before']), layer, turned, mask, None if past is None else past[index])
        x = x + mixed
        x = x + feed_forward(norm(x, layer['after']), layer)
        rows.append(new)
    return norm(x, ones), torch.cat([tapped[index] for index in taps], dim=-1), rows


def run_head(states, embedded, start, past):
    """Row t pairs the state at t with the token t + 1."""
    features = F.linear(states, fuse)
    length = features.shape[1]
    mask = torch.ones(length, start + length, dtype=torch.bool, device=device).tril(start)
    joined = torch.cat([norm(embedded, head['before']), norm(features, ones)], dim=-1)
    mixed, new = attend(joined, head, angles(start, length), mask, past)
    middle = features + mixed
    return middle + feed_forward(norm(middle, head['after']), head), new


def losses(embedded, start, past, head_past):
    """embedded [batch, length, hidden]; degradation and divergence of each sequence."""
    features, states, _ = run_target(embedded, start, past)
    logits = F.linear(features[:, -window:], output).float()
    distribution = logits.log_softmax(-1)
    divergence = (clean.exp() * (clean - distribution)).sum(-1).mean(-1)
    drafted, _ = run_head(states[:, :-1], embedded[:, 1:], start, head_past)
    proposal = F.linear(norm(drafted[:, -(window - 1):], ones), head_output).float().log_softmax(-1)
    kept = torch.minimum(distribution[:, 1:].exp(), proposal.exp()).sum(-1)
    follows = (logits.argmax(-1) == answer).float()
    accepted = (proposal.argmax(-1) == answer[1:]).float()
    return (1 - kept).mean(-1), divergence, follows, accepted


prompt = torch.randint(0, vocabulary, (before,), device=device)
answer = torch.randint(0, vocabulary, (window,), device=device)
rest = torch.cat([torch.randint(0, vocabulary, (tail,), device=device), answer[:-1]])
clean = torch.randn(window, vocabulary, device=device).log_softmax(-1)
start = before - 1
_, prompt_states, past = run_target(embedding[prompt[:-1]][None], 0, None)
_, head_past = run_head(prompt_states, embedding[prompt[1:]][None], 0, None)
last = prompt[-1:]


def draw_suffix():
    return torch.randint(0, vocabulary, (suffix,), device=device)


def gradient():
    with torch.enable_grad():
        hot = F.one_hot(draw_suffix(), vocabulary).to(dtype).requires_grad_(True)
        embedded = torch.cat([embedding[last], hot @ embedding, embedding[rest]])[None]
        degradation, divergence, _, _ = losses(embedded, start, past, head_past)
        first, = torch.autograd.grad(degradation.sum(), hot, retain_graph=True)
        second, = torch.autograd.grad(divergence.sum(), hot)
    return first.float().cpu(), second.float().cpu()


def scoring(batch):
    base = draw_suffix()
    candidates = base.repeat(count, 1)
    places = torch.randint(0, suffix, (count,), device=device)
    candidates[torch.arange(count, device=device), places] = torch.randint(0, vocabulary, (count,), device=device)
    results = []
    for chunk in candidates.split(batch):
        n = chunk.shape[0]
        ids = torch.cat([last.expand(n, -1), chunk, rest.expand(n, -1)], dim=1)
        results.append([value.cpu() for value in losses(embedding[ids], start, past, head_past)])
    return results


def median(run, repetitions):
    for _ in range(2):
        run()
    times = []
    for _ in range(repetitions):
        if cuda:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 1000 * statistics.median(times)


def product_rate(size=8192 if cuda else 1024):
    left, right = weight(size, size), weight(size, size)
    return 2e-6 * size**3 / median(lambda: left @ right, 9)


gradient_ms = median(gradient, 9)
batches = {}
for batch in (32, 64, 128, 256, 512):
    try:
        batches[batch] = median(lambda: scoring(batch), 4)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
result = {'version': torch.__version__, 'gigaflops': product_rate(), 'gradientMs': gradient_ms}
print(json.dumps({**result, 'scoringMs': min(batches.values())}))
