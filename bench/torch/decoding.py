"""Greedy decoding with torch.compile and CUDA graphs: keys and values in buffers of fixed size, tokens stay on the GPU."""
import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
from llama import Llama
from serve import serve

inductor.coordinate_descent_tuning = True


def create_parts(given):
    target, hidden, heads = Llama(given), given['hidden'], given['heads']
    before, count = given['before'], given['tokens']
    size, length = hidden // heads, before + count
    caches = [tuple(torch.zeros(1, heads, length, size) for _ in range(2)) for _ in target.layers]
    for cache in sum(caches, ()):
        torch._dynamo.mark_static_address(cache)  # or no graph would hold what writes it
    columns = torch.arange(length)
    angles = columns.float()[:, None] * 10000.0 ** (-torch.arange(0, size, 2).float() / size)
    cos, sin = (part.to(torch.get_default_dtype()) for part in (angles.cos(), angles.sin()))

    def rotate(x, positions):
        left, right = x.chunk(2, dim=-1)
        c, s = cos[positions], sin[positions]
        return torch.cat([left * c - right * s, right * c + left * s], dim=-1)

    def choose(tokens, positions):
        """The likeliest token after tokens [row] at positions [row], whose keys and values are written."""
        x = target.embedding(tokens)[None]
        mask = columns <= positions[:, None]
        for layer, (keys, values) in zip(target.layers, caches):
            q, k, v = layer.qkv(layer.before(x)).view(1, len(tokens), 3, heads, size).permute(2, 0, 3, 1, 4)
            keys.index_copy_(2, positions, rotate(k, positions))
            values.index_copy_(2, positions, v)
            seen = F.scaled_dot_product_attention(rotate(q, positions), keys, values, attn_mask=mask)
            x = x + layer.o(seen.transpose(1, 2).reshape(1, len(tokens), hidden))
            gate, up = layer.gate_up(layer.after(x)).chunk(2, dim=-1)
            x = x + layer.down(F.silu(gate) * up)
        return target.head(target.norm(x[0, -1:])).argmax(-1)

    step = torch.compile(choose, mode='reduce-overhead', fullgraph=True)
    prompt = torch.randint(0, given['vocabulary'], (before,))
    with torch.no_grad():
        choose(prompt, columns[:before])

    @torch.no_grad()
    def decode():
        token, answer = prompt[-1:], []
        for position in columns[before - 1 : before - 1 + count].split(1):
            # The graph writes its next token over this one.
            token = step(token, position).clone()
            answer.append(token)
        torch.cat(answer).cpu()

    return {'tokens': decode}


serve(create_parts)
