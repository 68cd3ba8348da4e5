/**
 * Graph to graph by rules, from the leaves to the outputs. Nodes of the same operation, attributes and inputs become
 * one on the way: gradient rules repeat forward expressions freely, and here the repetition disappears. Nodes that no
 * output needs are not visited at all.
 */
import { formatShape } from './dimension.js';
import { sortTopologically, type Tensor } from './tensor.js';

/**
 * A better form of a node whose inputs are in their best form already; undefined where there is none. New nodes that
 * it is made of are rewritten in turn, so a rule must not be able to undo what another does.
 */
export type RewriteRule = (tensor: Tensor) => Tensor | undefined;

export function rewrite(
  outputs: Readonly<Record<string, Tensor>>,
  rules: readonly RewriteRule[],
): Readonly<Record<string, Tensor>> {
  const best = new Map<Tensor, Tensor>();
  const identities = new Map<Tensor, number>();
  const distinct = new Map<string, Tensor>();

  /** The one node of all that compute the same from these inputs. */
  const unify = (tensor: Tensor): Tensor => {
    const inputs = tensor.inputs.map((input) => best.get(input)!);
    const key = describe(
      tensor,
      inputs.map((input) => identities.get(input)!),
    );
    const known = distinct.get(key);
    if (known !== undefined) return known;
    const isSame = inputs.every((input, index) => input === tensor.inputs[index]);
    const unified = isSame ? tensor : { ...tensor, inputs };
    distinct.set(key, unified);
    identities.set(unified, identities.size);
    return unified;
  };

  const settle = (root: Tensor): Tensor => {
    for (const tensor of sortTopologically([root], (node) => best.has(node))) {
      const unified = unify(tensor);
      if (!best.has(unified)) best.set(unified, improve(unified));
      best.set(tensor, best.get(unified)!);
    }
    return best.get(root)!;
  };

  const improve = (tensor: Tensor): Tensor => {
    for (const rule of rules) {
      const better = rule(tensor);
      if (better !== undefined && better !== tensor) return settle(better);
    }
    return tensor;
  };

  return Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, settle(tensor)]));
}

function describe({ operation, attributes, shape, dtype }: Tensor, inputs: readonly number[]): string {
  const settings = JSON.stringify(attributes, tellNumbersApart);
  return `${operation} ${settings} (${inputs.join()}) ${dtype} ${formatShape(shape)}`;
}

/** JSON writes both infinities and NaN as null, and -0 as 0. */
function tellNumbersApart(_: string, value: unknown): unknown {
  if (typeof value !== 'number' || (Number.isFinite(value) && !Object.is(value, -0))) return value;
  return Object.is(value, -0) ? '-0' : String(value);
}
