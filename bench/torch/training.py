"""A drafter that learns, in eager PyTorch: the losses of the five systems, and AdamW behind clipped gradients.

Everything is summed over the learnt tokens and divided by their number before the update. Token i counts weights[i]; it is
drafted at level d by row i - 2 - d, and the target's own distribution of it stands at i - 1.

Settings: models, name, threads, objective (depth, labels, decay, featureWeight, labelWeight), adam (rate, firstDecay,
secondDecay, epsilon, weightDecay, clip), tokens and weights [text][position]. Parts:

  step    the target's pass, the gradients, the update
  record  two updates: { loss, levels, norm, tensors { published name: { norm, entries } } }

Norms are of the summed gradients, but for a system's own, which is that of the mean before clipping. An entry is its flat
place, the gradient there, and the weight after one and after two updates on the same batch. Places are those of the two
largest gradients, and one that depends on the tensor's size alone.
"""
import torch
import torch.nn.functional as F
from checkpoints import read_folder
from drafters import SYSTEMS, Decoder
from serve import serve


class Learner:
    def __init__(self, given):
        name, models = given['name'], given['models']
        self.target = Decoder(*read_folder(f'{models}/target'))
        config, weights = read_folder(f'{models}/{name}')
        # Embeddings that a head has beside its target's are a copy, which stays as it is; a draft model learns its own.
        frozen = () if name == 'sps' else ('embed_tokens.weight',)
        self.parameters = {
            key: value.requires_grad_(True)
            for key, value in weights.items()
            if value.is_floating_point() and key not in frozen
        }
        self.drafter = SYSTEMS[name](config, weights, self.target)
        self.objective, self.adam = given['objective'], given['adam']
        matrices = [value for value in self.parameters.values() if value.dim() > 1]
        vectors = [value for value in self.parameters.values() if value.dim() <= 1]
        self.optimizer = torch.optim.AdamW(
            [{'params': matrices, 'weight_decay': self.adam['weightDecay']}, {'params': vectors, 'weight_decay': 0}],
            lr=self.adam['rate'],
            betas=(self.adam['firstDecay'], self.adam['secondDecay']),
            eps=self.adam['epsilon'],
        )

    def read(self, tokens):
        """The frozen target's pass, with its distributions where the drafter learns from them."""
        with torch.no_grad():
            states = self.target.read(tokens)
            if self.objective['labels'] == 'soft':
                logits = self.target.project(states.features)
                if hasattr(self.drafter, 'target_tokens'):
                    states.is_inside = torch.isin(logits.argmax(-1), self.drafter.target_tokens)
                    logits = logits[..., self.drafter.target_tokens]
                states.distribution = logits.softmax(-1)
        return states

    def losses(self, states, weights):
        """The loss, and the cross-entropy of each level without its weight, all summed over the learnt tokens."""
        objective = self.objective
        drafted, features = self.drafter.draft(states, objective['depth'])
        levels = []
        for level, logits in enumerate(drafted):
            # The last row is about the token behind the text.
            log_q, counted = logits[:, :-1].log_softmax(-1), weights[:, 2 + level :]
            if objective['labels'] == 'tokens':
                surprise = F.nll_loss(log_q.transpose(1, 2), states.tokens[:, 2 + level :], reduction='none')
            else:
                surprise = -(states.distribution[:, 1 + level : -1] * log_q).sum(-1)
                if states.is_inside is not None:
                    counted = counted * states.is_inside[:, 1 + level : -1]
            levels.append((surprise * counted).sum())
        loss = sum(objective['labelWeight'] * objective['decay'] ** level * value for level, value in enumerate(levels))
        if objective['featureWeight'] > 0 and features is not None:
            apart = F.smooth_l1_loss(features[:, :-1], states.features[:, 1:-1], reduction='none').mean(-1)
            loss = loss + objective['featureWeight'] * (apart * weights[:, 2:]).sum()
        return loss, levels

    def update(self, count):
        """Of the gradients that lie with the parameters; their length as a mean over `count` tokens, before clipping."""
        for value in self.parameters.values():
            value.grad /= count
        length = torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.adam['clip'])
        self.optimizer.step()
        self.optimizer.zero_grad()
        return length.item()


def digits(value, count=8):
    return float(f'{value:.{count}g}')


def choose_places(gradient):
    size = gradient.numel()
    largest = gradient.abs().flatten().topk(min(2, size)).indices.tolist()
    return list(dict.fromkeys([*largest, size * 2 // 3]))


def create_parts(given):
    learner = Learner(given)
    tokens, weights = torch.tensor(given['tokens']), torch.tensor(given['weights'], dtype=torch.float32)
    count = weights.sum().item()

    def differentiate():
        loss, levels = learner.losses(learner.read(tokens), weights)
        loss.backward()
        return loss, levels

    def step():
        loss, _ = differentiate()
        learner.update(count)
        return {'loss': loss.item()}

    def record():
        loss, levels = differentiate()
        gradients = {key: value.grad.clone() for key, value in learner.parameters.items()}
        places = {key: choose_places(gradient) for key, gradient in gradients.items()}
        take = lambda values: {key: [values[key].flatten()[place].item() for place in places[key]] for key in places}
        norm, once = learner.update(count), take(learner.parameters)
        step()
        twice, first = take(learner.parameters), take(gradients)
        tensors = {
            key: {
                'norm': digits(gradient.double().norm().item()),
                'entries': [
                    [place, digits(gradient_there, 6), digits(after), digits(later)]
                    for place, gradient_there, after, later in zip(places[key], first[key], once[key], twice[key])
                ],
            }
            for key, gradient in gradients.items()
        }
        head = {'loss': digits(loss.item()), 'levels': [digits(level.item()) for level in levels], 'norm': digits(norm)}
        return {'record': {**head, 'tensors': tensors}}

    return {'step': step, 'record': record}


serve(create_parts)
