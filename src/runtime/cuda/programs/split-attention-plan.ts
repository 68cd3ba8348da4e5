/** Attention of few rows: finds what each row sees, and rotates new keys on the way. */
import { equalDimensions } from '../../../graph/dimension.js';
import { constant, input, type Tensor, type TensorOf } from '../../../graph/tensor.js';
import type { FindOperand } from '../kernels/element-code.js';
import { planSeen, seenShape } from '../kernels/seen-columns-kernel.js';
import type { SmallBatchStep, KernelStep, Place, Step } from './step.js';
import { readsOf, resultsOf, rootOf } from './step.js';
import {
  attentionForms,
  countedItems,
  isSplittable,
  planSplitAttention,
  scratchShapes,
} from '../kernels/split-attention-kernel.js';

export function fuseAttention(steps: readonly Step[], find: FindOperand): readonly Step[] {
  const tensor = constant(new Array<number>(countedItems).fill(0), [countedItems], 'int32');
  const counters: Place = { tensor, type: 'int32', origin: 'constant', key: {} };
  const makers = new Map(steps.flatMap((step, at) => resultsOf(step).map(({ key }) => [key, at] as const)));
  const seen = new Map<Tensor, FoundColumns>(); // by mask
  const before = new Map<Step, KernelStep>();
  const early = new Set<Step>(); // before all others
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
    const mask = rootOf(attention.inputs[1]!);
    if (!seen.has(mask)) {
      const found = findSeen(mask, find);
      const needed = listMaps(find(mask)! as Place, steps, makers);
      seen.set(mask, { step: found, isSeenEarly: needed !== undefined });
      if (needed === undefined) before.set(isReady ? keys : step, found);
      else for (const each of [...needed, found]) early.add(each);
    }
    const { step: found, isSeenEarly } = seen.get(mask)!;
    const operands = { counters, seen: found.result, isSeenEarly };
    const fused = planStep(step, attention, operands, isReady ? keys : undefined, find);
    if (isReady) {
      moved.set(at, fused);
      gone.add(step);
    } else stay.set(step, fused);
  }
  const others = steps.flatMap((step, at): Step[] => {
    if (early.has(step)) return [];
    const first = before.get(step);
    const own = gone.has(step) ? [] : [moved.get(at) ?? stay.get(step) ?? step];
    return first === undefined ? own : [first, ...own];
  });
  const first = [...early];
  const last = first.pop();
  return last?.kind === 'kernel' ? [...first, { ...last, isAwaited: true }, ...others] : others;
}

interface FoundColumns {
  readonly step: KernelStep;
  readonly isSeenEarly: boolean;
}

/** The steps that make a mask, if they are maps of inputs: they can come before all others. */
function listMaps(
  place: Place,
  steps: readonly Step[],
  makers: ReadonlyMap<object, number>,
): readonly Step[] | undefined {
  if (place.origin !== 'computed') return [];
  const step = steps[makers.get(place.key)!]!;
  if (step.kind !== 'kernel' || !step.isMap) return undefined;
  const needed = readsOf(step).map((read) => listMaps(read, steps, makers));
  return needed.every((each) => each !== undefined) ? [...needed.flat(), step] : undefined;
}

function findSeen(mask: Tensor, find: FindOperand): KernelStep {
  const result: Place = {
    tensor: input('seen', seenShape(mask), 'int32'),
    type: 'int32',
    origin: 'computed',
    key: {},
  };
  return { kind: 'kernel', plan: planSeen(mask, result, find), result, isMap: false };
}

/** The map that makes the keys of the new rows. */
function findOwnKeys(
  { attributes: { segments }, inputs, shape }: TensorOf<'attention'>,
  steps: readonly Step[],
  makers: ReadonlyMap<object, number>,
  find: FindOperand,
): KernelStep | undefined {
  const own = segments.lastIndexOf('own');
  if (own < 0) return undefined;
  const keys = inputs[2 + 2 * own]!;
  if (!equalDimensions(keys.shape[1]!, shape[1]!)) return undefined;
  const place = find(rootOf(keys));
  const step = place === undefined ? undefined : steps[makers.get(place.key) ?? -1];
  return step?.kind === 'kernel' && step.isMap && step.result.type === 'float32' ? step : undefined;
}

function planStep(
  step: KernelStep,
  tensor: TensorOf<'attention'>,
  operands: { readonly counters: Place; readonly seen: Place; readonly isSeenEarly: boolean },
  keys: KernelStep | undefined,
  find: FindOperand,
): SmallBatchStep {
  const { shape, atMost } = scratchShapes(tensor);
  const scratch: Place = {
    tensor: input('scratch', shape),
    atMost,
    type: 'float32',
    origin: 'computed',
    key: {},
  };
  const ownKeys = keys && { tensor: keys.result.tensor, result: keys.result };
  const work = { ...operands, tensor, result: step.result, scratch, ownKeys };
  return {
    kind: 'small-batch',
    purpose: 'attention',
    rows: tensor.shape[1]!,
    forms: attentionForms.map((form) => ({ rows: form.rows, plan: planSplitAttention(work, find, form) })),
    results: [step.result, scratch, ...(keys === undefined ? [] : [keys.result])],
    replaced: keys === undefined ? [step] : [keys, step],
  };
}
