/**
 * Reverse-mode differentiation, graph to graph: walks from the loss back to the inputs and adds, for every node that
 * lies between them, the product with its local rule. The result is an ordinary graph, so gradients can be
 * differentiated again, fused and lowered like anything else.
 */
import { equalShapes } from './dimension.js';
import { attentionGradients, rotationGradients } from './operations/attention.js';
import { contractionGradients, expertGradients } from './operations/contraction.js';
import { drawingGradients, indexingGradients } from './operations/indexing.js';
import { add, elementwiseGradients } from './operations/elementwise.js';
import { constant, input, isFloat, refuse, sortTopologically } from './tensor.js';
import { reductionGradients } from './operations/reductions.js';
import { broadcast, shapingGradients } from './operations/shaping.js';
import { rewrite } from './simplify.js';
import type { GradientRule, GradientRules, OperationName, Tensor, TensorOf } from './tensor.js';

const rules: GradientRules<OperationName> = {
  input: () => [],
  weight: () => [],
  constant: () => [],
  ...elementwiseGradients,
  ...contractionGradients,
  ...expertGradients,
  ...attentionGradients,
  ...shapingGradients,
  ...reductionGradients,
  ...rotationGradients,
  ...indexingGradients,
  ...drawingGradients,
};

/** How a loss of one element changes with each of the given tensors, which may stand anywhere in its graph. */
export function gradient(loss: Tensor, sources: readonly Tensor[]): readonly Tensor[] {
  if (loss.dtype !== 'float32' || loss.shape.some((dimension) => dimension !== 1)) {
    refuse('gradient', 'the loss must be one float32 value', [loss]);
  }
  for (const source of sources) {
    if (!isFloat(source.dtype)) refuse('gradient', 'only floating-point values have a gradient', [source]);
  }
  const ordered = sortTopologically([loss]);
  const onPath = new Set<Tensor>(sources);
  for (const tensor of ordered) if (tensor.inputs.some((input) => onPath.has(input))) onPath.add(tensor);

  const gradients = new Map<Tensor, Tensor>();
  if (onPath.has(loss)) gradients.set(loss, broadcast(constant(1), loss.shape));
  for (const tensor of [...ordered].reverse()) {
    const outputGradient = gradients.get(tensor);
    if (outputGradient === undefined || !tensor.inputs.some((input) => onPath.has(input))) continue;
    // The table pairs each name with its own rule; the union of pairs is more than the compiler follows.
    const rule = rules[tensor.operation] as GradientRule<OperationName>;
    const contributions = rule(tensor, outputGradient);
    tensor.inputs.forEach((input, index) => {
      const contribution = contributions[index];
      if (contribution === undefined || !onPath.has(input)) return;
      if (!equalShapes(contribution.shape, input.shape)) {
        refuse(`gradient of ${tensor.operation}`, 'has another shape than its input', [contribution, input]);
      }
      const known = gradients.get(input);
      gradients.set(input, known === undefined ? contribution : add(known, contribution));
    });
  }
  return sources.map((source) => gradients.get(source) ?? broadcast(constant(0), source.shape));
}

/**
 * The gradient of each named weight, in the order of the names. All of them have to stand in the loss's graph, maybe many
 * times: a head that drafts five levels reads its weights five times.
 */
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

/**
 * The same outputs, with the named weights as inputs, so that a program reads them from buffers that another program
 * updates: [weight's name] -> input's name.
 */
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
