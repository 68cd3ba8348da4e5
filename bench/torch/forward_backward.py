"""Forward, and forward + backward to the input embeddings, of one batch of a Llama with random weights."""
import torch
from llama import Llama
from serve import serve


def create_parts(given):
    model = Llama(given)
    x = torch.randn(given['batch'], given['positions'], given['hidden'])

    def forward():
        with torch.no_grad():
            model.head(model.read(x)[0]).mean()

    def both():
        leaf = x.clone().requires_grad_(True)
        model.head(model.read(leaf)[0]).mean().backward()

    return {'forward': forward, 'forward + backward': both}


serve(create_parts)
