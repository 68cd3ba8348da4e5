/** Fuses attention of few rows with the rotation of its new keys. */
import { equalDimensions } from '../../../graph/dimension.js';
import { constant, input } from '../../../graph/operations/leaves.js';
import type { TensorOf } from '../../../graph/tensor.js';
import type { FindOperand } from '../kernels/element-code.js';
import type { SmallBatchStep, KernelStep, Place, Step } from './step.js';
import { readsOf, resultsOf, rootOf, rowForms } from './step.js';
import {
  countedHeads,
  isSplittable,
  planSplitAttention,
  scratchShape,
} from '../kernels/split-attention-kernel.js';

export function fuseAttention(steps: readonly Step[], find: FindOperand): readonly Step[] {
  const tensor = constant(new Array<number>(countedHeads).fill(0), [countedHeads], 'int32');
  const counters: Place = { tensor, type: 'int32', origin: 'constant', key: {} };
  const makers = new Map(steps.flatMap((step, at) => resultsOf(step).map(({ key }) => [key, at] as const)));
  const moved = new Map<number, SmallBatchStep>(); // to where keys were made
  const gone = new Set<Step>();
  const stay = new Map<Step, SmallBatchStep>();
  for (const step of steps) {
    if (step.kind !== 'kernel' || step.result.tensor.operation !== 'attention') continue;
    const attention = step.result.tensor;
    if (!isSplittable(attention)) continue;
    const keys = findOwnKeys(attention, steps, makers, find);
    const others = readsOf(step).filter(({ key }) => key !== keys?.result.key);
    const at = keys === undefined ? -1 : makers.get(keys.result.key)!;
    // The operands must be ready before the keys are made, because others may read the keys next.
    const isReady = keys !== undefined && others.every(({ key }) => (makers.get(key) ?? -1) < at);
    const fused = planStep(step, attention, { counters, keys: isReady ? keys : undefined, find });
    if (isReady) {
      moved.set(at, fused);
      gone.add(step);
    } else stay.set(step, fused);
  }
  return steps.flatMap((step, at): Step[] =>
    gone.has(step) ? [] : [moved.get(at) ?? stay.get(step) ?? step],
  );
}

/** The map that makes the keys of the new rows. */
function findOwnKeys(
  { attributes: { segments }, inputs, shape }: TensorOf<'attention'>,
  steps: readonly Step[],
  makers: ReadonlyMap<object, number>,
  find: FindOperand,
): KernelStep | undefined {
  const own = segments.indexOf('own');
  if (own < 0 || segments.lastIndexOf('own') !== own) return undefined;
  const keys = inputs[2 + 2 * own]!;
  if (!equalDimensions(keys.shape[1]!, shape[1]!)) return undefined;
  const place = find(rootOf(keys));
  const step = place === undefined ? undefined : steps[makers.get(place.key) ?? -1];
  return step?.kind === 'kernel' && step.isMap && step.result.type === 'float32' ? step : undefined;
}

function planStep(
  step: KernelStep,
  tensor: TensorOf<'attention'>,
  {
    counters,
    keys,
    find,
  }: { readonly counters: Place; readonly keys: KernelStep | undefined; readonly find: FindOperand },
): SmallBatchStep {
  const scratch: Place = {
    tensor: input('scratch', scratchShape(tensor)),
    type: 'float32',
    origin: 'computed',
    key: {},
  };
  const ownKeys = keys && { tensor: keys.result.tensor, result: keys.result };
  const work = { tensor, result: step.result, scratch, counters, ownKeys };
  return {
    kind: 'small-batch',
    purpose: 'attention',
    rows: tensor.shape[1]!,
    forms: rowForms.map((rows) => ({ rows, plan: planSplitAttention(work, find, rows) })),
    results: [step.result, scratch, ...(keys === undefined ? [] : [keys.result])],
    replaced: keys === undefined ? [step] : [keys, step],
  };
}
