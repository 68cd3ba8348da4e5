/**
 * Sums of a product and something of its shape, such as the stream that layers add to: the call of the product adds it on
 * the way, so that nothing has to read the product again.
 */
import { equalShapes } from '../../graph/dimension.js';
import type { Tensor } from '../../graph/tensor.js';
import { rootOf } from './memory-root.js';
import type { KernelStep, Place, PlainStep, ProductStep } from './step.js';
import { readsOf } from './step.js';

/**
 * @param outputs places that somebody wants
 * @param all steps among which readers of a product are looked for
 */
export function fuseAddends(
  steps: readonly PlainStep[],
  outputs: ReadonlySet<Place>,
  find: (tensor: Tensor) => Place | undefined,
  all: readonly PlainStep[] = steps,
): readonly PlainStep[] {
  const makers = new Map(all.map((step, at) => [step.result.key, { step, at }]));
  const readers = new Map<object, number>();
  for (const step of all) for (const { key } of readsOf(step)) readers.set(key, (readers.get(key) ?? 0) + 1);
  const own = new Set(steps);
  const fused = new Map<PlainStep, ProductStep>();
  const gone = new Set<PlainStep>();
  for (const step of steps) {
    const found = step.kind === 'kernel' ? findSides(step, find) : [];
    for (const [summed, addend] of found) {
      const made = makers.get(summed.key);
      const isReady = (makers.get(addend.key)?.at ?? -1) < (made?.at ?? -1);
      if (made?.step.kind !== 'product' || !own.has(made.step) || !isReady) continue;
      if (readers.get(summed.key) !== 1 || outputs.has(summed) || gone.has(made.step)) continue;
      fused.set(made.step, { ...made.step, addend, result: step.result });
      gone.add(step);
      gone.add(made.step);
      break;
    }
  }
  return steps.flatMap((step): PlainStep[] => {
    const product = fused.get(step);
    return product !== undefined ? [product] : gone.has(step) ? [] : [step];
  });
}

/** Either side of a sum of two that lie in memory as their sum does, and the other one. */
function findSides(
  { isMap, result }: KernelStep,
  find: (tensor: Tensor) => Place | undefined,
): readonly (readonly [Place, Place])[] {
  const { tensor } = result;
  if (!isMap || tensor.operation !== 'add' || result.type !== 'float32') return [];
  if (!tensor.inputs.every((side) => equalShapes(side.shape, tensor.shape))) return [];
  const [left, right] = tensor.inputs.map((side) => find(rootOf(side)));
  if (left?.type !== 'float32' || right?.type !== 'float32' || left.key === right.key) return [];
  return [
    [left, right],
    [right, left],
  ];
}
