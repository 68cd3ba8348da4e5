"""The target and the five drafting systems in plain PyTorch, on weights under their published names.

A drafter is asked along a known text: `draft(states, depth)` gives for each level d the logits of all rows t that the
text has, [batch, positions - 1 - d, vocabulary], where row t is about token t + 2 + d and was drafted from the target's
state at t and the tokens t + 1 .. t + 1 + d.
"""
import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F


@dataclass
class States:
    """What the target says about a batch of texts."""

    tokens: torch.Tensor  # [batch, position]
    embeddings: torch.Tensor  # [batch, position, hidden]
    features: torch.Tensor  # [batch, position, hidden], behind the final norm
    residuals: list  # [layer] the residual stream before it, [batch, position, hidden]
    distribution: Optional[torch.Tensor] = None  # [batch, position, draft vocabulary], of the token behind
    is_inside: Optional[torch.Tensor] = None  # [batch, position] whether the likeliest of all can be drafted


def linear(weights, name, x):
    return F.linear(x, weights[f'{name}.weight'], weights.get(f'{name}.bias'))


def rms_norm(x, scale, epsilon):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * scale


class Attention:
    """Rotary self-attention of one layer. Keys and values are given back, for later levels of a draft to read."""

    def __init__(self, config, weights, name):
        self.weights, self.name = weights, name
        self.heads = config['num_attention_heads']
        if config.get('num_key_value_heads', self.heads) != self.heads:
            raise ValueError('grouped queries are not written here')
        self.size = config.get('head_dim', config['hidden_size'] // self.heads)
        theta = config.get('rope_theta') or config['rope_parameters']['rope_theta']
        self.frequencies = theta ** (-torch.arange(0, self.size, 2).float() / self.size)

    def rotate(self, x, first):
        angles = torch.arange(first, first + x.shape[2]).float()[:, None] * self.frequencies
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-right, left], -1) * sin

    def __call__(self, x, first=0, trunk=None, branch=()):
        """Row t stands at position first + t. Without a trunk it sees the rows up to itself; with one it sees the trunk's
        rows up to t, and row t of each earlier level in `branch` and of itself."""
        batch, length, _ = x.shape
        split = lambda part: linear(self.weights, f'{self.name}.{part}', x).view(batch, length, self.heads, -1).transpose(1, 2)
        q, k, v = self.rotate(split('q_proj'), first), self.rotate(split('k_proj'), first), split('v_proj')
        keys, values = (k, v) if trunk is None else (part[:, :, :length] for part in trunk)
        own = [] if trunk is None else [*((a[:, :, :length], b[:, :, :length]) for a, b in branch), (k, v)]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = (q @ keys.transpose(2, 3)).masked_fill(future, -math.inf)
        scores = torch.cat([scores, *((q * a).sum(-1, keepdim=True) for a, _ in own)], dim=-1)
        shares = (scores / math.sqrt(self.size)).softmax(-1)
        mixed = shares[..., :length] @ values
        for place, (_, b) in enumerate(own):
            mixed = mixed + shares[..., length + place, None] * b
        return linear(self.weights, f'{self.name}.o_proj', mixed.transpose(1, 2).reshape(batch, length, -1)), (k, v)


def feed_forward(weights, name, x):
    return linear(weights, f'{name}.down_proj', F.silu(linear(weights, f'{name}.gate_proj', x)) * linear(weights, f'{name}.up_proj', x))


class Decoder:
    """A Llama model: the target, or the drafter of plain speculative sampling."""

    def __init__(self, config, weights):
        self.config, self.weights, self.epsilon = config, weights, config['rms_norm_eps']
        self.attention = [
            Attention(config, weights, f'model.layers.{layer}.self_attn') for layer in range(config['num_hidden_layers'])
        ]

    def read(self, tokens):
        w = self.weights
        embeddings = F.embedding(tokens, w['model.embed_tokens.weight'])
        x, residuals = embeddings, []
        for layer, attention in enumerate(self.attention):
            name = f'model.layers.{layer}'
            residuals.append(x)
            x = x + attention(rms_norm(x, w[f'{name}.input_layernorm.weight'], self.epsilon))[0]
            x = x + feed_forward(w, f'{name}.mlp', rms_norm(x, w[f'{name}.post_attention_layernorm.weight'], self.epsilon))
        return States(tokens, embeddings, rms_norm(x, w['model.norm.weight'], self.epsilon), residuals)

    def project(self, features):
        return linear(self.weights, 'lm_head', features)


class DraftModel:
    def __init__(self, config, weights, target):
        self.model = Decoder(config, weights)

    def draft(self, states, depth):
        logits = self.model.project(self.model.read(states.tokens).features)
        return [logits[:, 1 + level :] for level in range(depth)], None


class Medusa:
    """arXiv 2401.10774"""

    def __init__(self, config, weights, target):
        self.weights, self.layers = weights, config['medusa_num_layers']

    def draft(self, states, depth):
        drafted = []
        for head in range(depth):
            x = states.features[:, : -1 - head]
            for layer in range(self.layers):
                x = x + F.silu(linear(self.weights, f'{head}.{layer}.linear', x))
            drafted.append(linear(self.weights, f'{head}.{self.layers}', x))
        return drafted, None


class Hydra:
    """arXiv 2402.05109, heads of kind mlp"""

    def __init__(self, config, weights, target):
        if config['hydra_head_arch'] != 'mlp' or config['hydra_num_layers'] != 1:
            raise ValueError('only heads of one mlp block are written here')
        self.weights = weights

    def draft(self, states, depth):
        drafted, positions = [], states.tokens.shape[1]
        for head in range(depth):
            rows = positions - 1 - head
            seen = [states.embeddings[:, 1 + ahead : 1 + ahead + rows] for ahead in range(head + 1)]
            z = torch.cat([states.features[:, :rows], *seen], dim=-1)
            name = f'hydra_mlp.{head}.0'
            x = linear(self.weights, f'{name}.res_connection', z) + F.silu(linear(self.weights, f'{name}.linear', z))
            drafted.append(linear(self.weights, f'hydra_lm_head.{head}', x))
        return drafted, None


class Eagle:
    """arXiv 2401.15077: predicts the target's next feature, which the target's own output projection reads."""

    def __init__(self, config, weights, target):
        self.weights, self.target, self.epsilon = weights, target, config['rms_norm_eps']
        self.attention = Attention(config, weights, 'layers.0.self_attn')

    def draft(self, states, depth):
        embeddings = F.embedding(states.tokens, self.weights['embed_tokens.weight'])
        features, trunk, branch, drafted, first = states.features[:, :-1], None, [], [], None
        for level in range(depth):
            pairs = torch.cat([embeddings[:, 1 + level :], features], dim=-1)
            x = linear(self.weights, 'fc', pairs)
            mixed, rows = self.attention(x, level, trunk, branch)
            x = x + mixed
            normed = rms_norm(x, self.weights['layers.0.post_attention_layernorm.weight'], self.epsilon)
            x = x + feed_forward(self.weights, 'layers.0.mlp', normed)
            drafted.append(self.target.project(x))
            first = x if first is None else first
            trunk, branch = (rows, branch) if trunk is None else (trunk, [*branch, rows])
            features = x[:, :-1]
        return drafted, first


class Eagle3:
    """arXiv 2503.01840: three residual streams in place of the feature, and every level trained on what it drafted itself."""

    def __init__(self, config, weights, target):
        layers = target.config['num_hidden_layers']
        self.weights, self.epsilon, self.taps = weights, config['rms_norm_eps'], (2, layers // 2, layers - 3)
        self.attention = Attention(config, weights, 'midlayer.self_attn')

    @property
    def target_tokens(self):
        """[draft token] the target's token; the draft vocabulary is a part of the target's."""
        offsets = self.weights['d2t']
        return offsets + torch.arange(len(offsets))

    def norm(self, name, x):
        return rms_norm(x, self.weights[f'{name}.weight'], self.epsilon)

    def draft(self, states, depth):
        tapped = torch.cat([states.residuals[layer][:, :-1] for layer in self.taps], dim=-1)
        features, trunk, branch, drafted = linear(self.weights, 'fc', tapped), None, [], []
        for level in range(depth):
            tokens = self.norm('midlayer.input_layernorm', states.embeddings[:, 1 + level :])
            pairs = torch.cat([tokens, self.norm('midlayer.hidden_norm', features)], dim=-1)
            mixed, rows = self.attention(pairs, level, trunk, branch)
            x = features + mixed
            x = x + feed_forward(self.weights, 'midlayer.mlp', self.norm('midlayer.post_attention_layernorm', x))
            drafted.append(linear(self.weights, 'lm_head', self.norm('norm', x)))
            trunk, branch = (rows, branch) if trunk is None else (trunk, [*branch, rows])
            features = x[:, :-1]
        return drafted, None


SYSTEMS = {'sps': DraftModel, 'medusa': Medusa, 'hydra': Hydra, 'eagle': Eagle, 'eagle3': Eagle3}
