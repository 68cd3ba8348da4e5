"""Losses, gradients and updated weights of the five systems on one small batch. JSON from standard input, JSON out:

  in   models, threads, tokens and weights [text][position], systems { name: { objective, adam } }
  out  version, systems { name: { loss, levels, norm, tensors { published name: { norm, entries } } } }

Norms are of the summed gradients, but for a system's own, which is that of the mean before clipping. An entry is its flat
place, the gradient there, and the weight after one and after two updates on the same batch. Places are those of the two
largest gradients, and one that depends on the tensor's size alone.
"""
import json
import sys

import torch
from training import Learner, load_target


def digits(value, count=8):
    return float(f'{value:.{count}g}')


def choose_places(gradient):
    size = gradient.numel()
    largest = gradient.abs().flatten().topk(min(2, size)).indices.tolist()
    return list(dict.fromkeys([*largest, size * 2 // 3]))


def run_system(name, settings, target, given):
    learner = Learner(name, f"{given['models']}/{name}", target, settings)
    tokens, weights = torch.tensor(given['tokens']), torch.tensor(given['weights'], dtype=torch.float32)
    count = weights.sum().item()
    states = learner.read(tokens)
    loss, levels = learner.losses(states, weights)
    loss.backward()
    gradients = {key: value.grad.clone() for key, value in learner.parameters.items()}
    places = {key: choose_places(gradient) for key, gradient in gradients.items()}
    take = lambda values: {key: [values[key].flatten()[place].item() for place in places[key]] for key in places}
    norm, once = learner.update(count), take(learner.parameters)
    learner.losses(states, weights)[0].backward()
    learner.update(count)
    twice, first = take(learner.parameters), take(gradients)
    return {
        'loss': digits(loss.item()),
        'levels': [digits(level.item()) for level in levels],
        'norm': digits(norm),
        'tensors': {
            key: {
                'norm': digits(gradient.double().norm().item()),
                'entries': [
                    [place, digits(gradient_there, 6), digits(after), digits(later)]
                    for place, gradient_there, after, later in zip(places[key], first[key], once[key], twice[key])
                ],
            }
            for key, gradient in gradients.items()
        },
    }


given = json.load(sys.stdin)
torch.set_num_threads(given['threads'])
target = load_target(f"{given['models']}/target")
systems = {name: run_system(name, settings, target, given) for name, settings in given['systems'].items()}
print(json.dumps({'version': torch.__version__, 'systems': systems}))
