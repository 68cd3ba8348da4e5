"""Training steps in eager PyTorch: the target's pass, the gradients, the update.

Settings: models, name, threads, objective, adam, and tokens [text][position], all of which are learned.
"""
import torch
from serve import serve
from training import Learner, load_target


def create_parts(given):
    target = load_target(f"{given['models']}/target")
    learner = Learner(given['name'], f"{given['models']}/{given['name']}", target, given)
    tokens = torch.tensor(given['tokens'])
    weights = torch.ones(tokens.shape)

    def step():
        loss, _ = learner.losses(learner.read(tokens), weights)
        loss.backward()
        learner.update(tokens.numel())
        return {'loss': loss.item()}

    return {'step': step}


serve(create_parts)
