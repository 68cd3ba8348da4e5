"""A Llama decoder in eager PyTorch with random weights, for timing beside Mistletoe's. Only shapes matter here.

Old versions of PyTorch lack the fused operations of new ones; both run what they have.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v, mask):
    if hasattr(F, 'scaled_dot_product_attention'):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v


def rotate(x, start):
    size = x.shape[-1]
    frequencies = 10000.0 ** (-torch.arange(0, size, 2).float() / size)
    angles = torch.arange(start, start + x.shape[2]).float()[:, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


class Norm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        if hasattr(F, 'rms_norm'):
            return F.rms_norm(x, x.shape[-1:], self.weight, 1e-5)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    def __init__(self, hidden, inner, heads, input_width=None):
        super().__init__()
        self.heads, self.before, self.after = heads, Norm(hidden), Norm(hidden)
        self.qkv = nn.Linear(input_width or hidden, 3 * hidden, bias=False)
        self.o, self.down = nn.Linear(hidden, hidden, bias=False), nn.Linear(inner, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * inner, bias=False)

    def forward(self, x, start=0, past=None, normed=None):
        """x [batch, length, hidden] behind `start` cached positions; returns the same, and the new keys and values."""
        batch, length, hidden = x.shape
        split = self.qkv(self.before(x) if normed is None else normed).view(batch, length, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        q, k = rotate(q, start), rotate(k, start)
        new = (k, v)
        if past is not None:
            k, v = (torch.cat([cached.expand(batch, -1, -1, -1), own], dim=2) for cached, own in zip(past, new))
        mask = torch.ones(length, start + length, dtype=torch.bool).tril(start)
        x = x + self.o(attend(q, k, v, mask).transpose(1, 2).reshape(batch, length, hidden))
        gate, up = self.gate_up(self.after(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up), new


class Llama(nn.Module):
    def __init__(self, given):
        super().__init__()
        hidden, inner, layers, heads, vocabulary = (
            given[name] for name in ('hidden', 'inner', 'layers', 'heads', 'vocabulary')
        )
        self.taps = (2, layers // 2, layers - 3)
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList([Layer(hidden, inner, heads) for _ in range(layers)])
        self.norm, self.head = Norm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        self.requires_grad_(False)

    def read(self, x, start=0, past=None):
        """Features, the three residual streams that EAGLE-3 taps, and the new keys and values of each layer."""
        tapped, rows = {}, []
        for index, layer in enumerate(self.layers):
            if index in self.taps:
                tapped[index] = x
            x, new = layer(x, start, past and past[index])
            rows.append(new)
        return self.norm(x), [tapped[index] for index in self.taps], rows
