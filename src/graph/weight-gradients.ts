/**
 * Weights that learn. A model is built from `weight` nodes, of which the same name may stand in a graph many times (a head
 * that drafts five levels reads its weights five times). weightGradients says how a loss changes with each name;
 * feedWeights then takes the values of those names from inputs, so that a program reads them from buffers that another
 * program updates.
 */
import { gradient } from './gradient.js';
import { input } from './operations/leaves.js';
import { rewrite } from './rewrite.js';
import { refuse, sortTopologically, type Tensor, type TensorOf } from './tensor.js';

/** The gradient of each named weight, in the order of the names; all of them have to stand in the loss's graph. */
export function weightGradients(loss: Tensor, names: readonly string[]): ReadonlyMap<string, Tensor> {
  const { loss: unified } = rewrite({ loss }, []); // the nodes of one weight become one
  const found = new Map(listWeights([unified!]).map((weight) => [weight.attributes.name, weight]));
  const weights = names.map((name) => {
    const weight = found.get(name);
    if (weight !== undefined) return weight;
    const known = [...found.keys()].join(', ');
    return refuse('weightGradients', `the loss does not read the weight "${name}"; it reads ${known}`, []);
  });
  const gradients = gradient(unified!, weights);
  return new Map(names.map((name, index) => [name, gradients[index]!]));
}

/** The same outputs, with the named weights as inputs: [weight's name] -> input's name. */
export function feedWeights(
  outputs: Readonly<Record<string, Tensor>>,
  inputNames: ReadonlyMap<string, string>,
): Readonly<Record<string, Tensor>> {
  return rewrite(outputs, [
    (tensor) => {
      if (tensor.operation !== 'weight') return undefined;
      const name = inputNames.get(tensor.attributes.name);
      return name === undefined ? undefined : input(name, tensor.shape, tensor.dtype);
    },
  ]);
}

/** Every weight that some outputs read, each name once. */
export function listWeights(outputs: readonly Tensor[]): readonly TensorOf<'weight'>[] {
  const weights = new Map<string, TensorOf<'weight'>>();
  for (const tensor of sortTopologically(outputs)) {
    if (tensor.operation === 'weight') weights.set(tensor.attributes.name, tensor);
  }
  return [...weights.values()];
}
