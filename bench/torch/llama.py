"""A Llama decoder in eager PyTorch with random weights, for timing beside Mistletoe's. Only shapes matter here."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

    def forward(self, x, cos, sin, mask, past=None):
        batch, length, hidden = x.shape
        split = lambda y: y.view(batch, length, self.heads, self.size).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        new = (k, v)
        if past is not None:
            k = torch.cat([past[0].expand(batch, -1, -1, -1), k], dim=2)
            v = torch.cat([past[1].expand(batch, -1, -1, -1), v], dim=2)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.size) + mask
        mixed = scores.softmax(-1) @ v
        return self.o(mixed.transpose(1, 2).reshape(batch, length, hidden)), new


def turn(x, cos, sin):
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


class Norm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    def __init__(self, hidden, inner, heads):
        super().__init__()
        self.attention, self.before, self.after = Attention(hidden, heads), Norm(hidden), Norm(hidden)
        self.gate, self.up = nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x, cos, sin, mask, past=None):
        mixed, new = self.attention(self.before(x), cos, sin, mask, past)
        x = x + mixed
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), new


class Llama(nn.Module):
    def __init__(self, hidden, inner, layers, heads, vocabulary):
        super().__init__()
        self.size = hidden // heads
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList([Layer(hidden, inner, heads) for _ in range(layers)])
        self.norm, self.head = Norm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        for parameter in self.parameters():
            parameter.requires_grad_(False)

    def features(self, x, start=0, past=None):
        """x [batch, length, hidden] behind `start` cached positions; returns features and the new keys and values."""
        length = x.shape[1]
        frequencies = 10000.0 ** (-torch.arange(0, self.size, 2).float() / self.size)
        angles = torch.arange(start, start + length).float()[:, None] * frequencies
        mask = torch.full((length, start + length), float('-inf')).triu(start + 1)
        rows = []
        for index, layer in enumerate(self.layers):
            x, new = layer(x, angles.cos(), angles.sin(), mask, None if past is None else past[index])
            rows.append(new)
        return self.norm(x), rows
