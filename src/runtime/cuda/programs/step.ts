/** Steps of a schedule: what is launched, what it reads, and what it makes. */
import type { Dimension } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { KernelPlan } from '../kernels/kernel-plan.js';
import type { KernelOperand } from '../kernels/kernel-text.js';

/** The tensor behind any reshapes. */
export function rootOf(tensor: Tensor): Tensor {
  let root = tensor;
  while (root.operation === 'reshape') root = root.inputs[0]!;
  return root;
}

/** A tensor in memory. Its identity is the operand's key. */
export interface Place extends KernelOperand {
  readonly tensor: Tensor;
  readonly origin: 'input' | 'weight' | 'constant' | 'computed';
  /** A matrix of weights whose axes changed places: it lies as [column, inner]. */
  readonly isTransposed?: boolean;
}

export type Step = PlainStep | SmallBatchStep;
export type PlainStep = KernelStep | ProductStep;

export interface KernelStep {
  readonly kind: 'kernel';
  readonly plan: KernelPlan;
  /** Instead, where a length is at least so much. */
  readonly other?: { readonly plan: KernelPlan; readonly from: number; readonly length: Dimension };
  readonly result: Place;
  /** Whether each element of the result is computed by itself: whoever has its operands may compute it as well. */
  readonly isMap: boolean;
}

export interface ProductStep {
  readonly kind: 'product';
  readonly tensor: TensorOf<'contract'>;
  readonly left: Place;
  readonly right: Place;
  /** Added to the product, which is written to the result with it. */
  readonly addend?: Place | undefined;
  readonly result: Place;
}

/** A kernel for few rows is written for each of these; rows that are not there cost next to nothing. */
export const rowForms: readonly number[] = [1, 4];
export const maxSmallBatchRows = rowForms.at(-1)!;

/** Several steps as one kernel, which is the faster way for few rows. */
export interface SmallBatchStep {
  readonly kind: 'small-batch';
  readonly purpose: 'products' | 'attention';
  readonly rows: Dimension;
  /** Each for so many rows at most, ascending; what they read may differ. */
  readonly forms: readonly { readonly rows: number; readonly plan: KernelPlan }[];
  readonly results: readonly Place[];
  /** What is done for more rows. */
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

/** All kernels that a step may launch, with names that tell whoever watches the device what they are for. */
export function plansOf(step: Step): readonly { readonly plan: KernelPlan; readonly purpose: string }[] {
  if (step.kind === 'product') return [];
  if (step.kind === 'small-batch') {
    const own = step.forms.map(({ rows, plan }) => ({ plan, purpose: `${step.purpose}_of_${rows}_rows` }));
    return [...own, ...step.replaced.flatMap(plansOf)];
  }
  const { operation } = step.result.tensor;
  const own = { plan: step.plan, purpose: operation };
  return step.other === undefined ? [own] : [own, { plan: step.other.plan, purpose: `${operation}_other` }];
}
