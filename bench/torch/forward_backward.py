"""Forward, and forward + backward to the input embeddings, of one batch of a Llama with random weights."""
import torch
from llama import Llama
from serve import serve


def create_parts(given):
    model = Llama(*(given[name] for name in ('hidden', 'inner', 'layers', 'heads', 'vocabulary')))
    x = torch.randn(given['batch'], given['positions'], given['hidden'])

    def forward():
        with torch.no_grad():
            model.head(model.features(x)[0]).mean()

    def both():
        leaf = x.clone().requires_grad_(True)
        model.head(model.features(leaf)[0]).mean().backward()

    return {'forward': forward, 'both': both}


serve(create_parts)
