import type { Dimension, Shape } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { KernelPlan } from '../kernels/kernel-plan.js';
import type { KernelOperand } from '../kernels/kernel-text.js';

/** The tensor behind any reshapes. */
export function rootOf(tensor: Tensor): Tensor {
  let root = tensor;
  while (root.operation === 'reshape') root = root.inputs[0]!;
  return root;
}

/** A tensor in memory, identified as an operand's key. */
export interface Place extends KernelOperand {
  readonly tensor: Tensor;
  readonly origin: 'input' | 'weight' | 'constant' | 'computed';
  /** A weight matrix stored as [column, inner]. */
  readonly isTransposed?: boolean | undefined;
  /** Takes no more memory than this shape. */
  readonly atMost?: Shape | undefined;
}

export type Step = PlainStep | SmallBatchStep;
export type PlainStep = KernelStep | ProductStep;

export interface KernelStep {
  readonly kind: 'kernel';
  readonly plan: KernelPlan;
  readonly result: Place;
  /** Whether each element is computed independently. */
  readonly isMap: boolean;
  /** Later steps start when it has ended, so that they may read the results up to here before they wait. */
  readonly isAwaited?: boolean | undefined;
}

export interface ProductStep {
  readonly kind: 'product';
  readonly tensor: TensorOf<'contract'>;
  readonly left: Place;
  readonly right: Place;
  readonly addend?: Place | undefined;
  readonly result: Place;
}

/** Several steps as one kernel for few rows: faster, or in an order of sums that does not depend on their number. */
export interface SmallBatchStep {
  readonly kind: 'small-batch';
  readonly purpose: 'products' | 'attention';
  readonly rows: Dimension;
  /** By max rows, ascending. */
  readonly forms: readonly { readonly rows: number; readonly plan: KernelPlan }[];
  readonly results: readonly Place[];
  /** For more rows. */
  readonly replaced: readonly PlainStep[];
}

export const resultsOf = (step: Step): readonly Place[] =>
  step.kind === 'small-batch' ? step.results : [step.result];

export function readsOf(step: Step): readonly Place[] {
  if (step.kind === 'product')
    return [step.left, step.right, ...(step.addend === undefined ? [] : [step.addend])];
  const { operands } = step.kind === 'kernel' ? step.plan : step.forms[0]!.plan;
  const made = new Set(resultsOf(step).map(({ key }) => key));
  return (operands as readonly Place[]).filter(({ key }) => !made.has(key));
}

/** A kernel of a step: `purpose` names it for profilers, `rows` are those that it is for, if not any number. */
interface NamedPlan {
  readonly plan: KernelPlan;
  readonly purpose: string;
  readonly rows: number | undefined;
}

export function plansOf(step: Step): readonly NamedPlan[] {
  if (step.kind === 'product') return [];
  if (step.kind === 'small-batch') {
    const own = step.forms.map(({ rows, plan }) => ({
      plan,
      purpose: `${step.purpose}_of_${rows}_rows`,
      rows,
    }));
    const others = step.replaced.flatMap(plansOf).map((other) => ({ ...other, rows: Infinity }));
    return [...own, ...others];
  }
  return [{ plan: step.plan, purpose: step.result.tensor.operation, rows: undefined }];
}
