/**
 * The search, step by step. Thin lines are the attack on single prompts, thick ones the median over prompts; the chart
 * of the divergence shows the bound that no kept suffix may exceed.
 */
import type { ArmName, DrafterResult, TracePoint } from '../../audit/result.js';
import { largest } from '../../core/vector.js';
import { acceptedLengthText, divergenceText } from '../../core/number-text.js';
import { type Level, type Point, drawChart } from '../chart.js';
import type { Markup } from '../markup.js';
import { armStyle, sameAnswerLength } from './audit-words.js';
import { median } from './timing-summary.js';

export const convergenceArms: readonly ArmName[] = [
  'attack',
  'undirected',
  'unprojected',
  'preservation-only',
];

const quantities = {
  acceptedLength: {
    name: 'Lowest accepted length along the clean answer',
    label: '↑ lowest accepted length so far',
    floor: 1,
    text: acceptedLengthText,
  },
  divergence: {
    name: 'Divergence of the target’s distribution',
    label: '↑ KL (nats per token)',
    floor: 0,
    text: divergenceText,
  },
} as const;
type Quantity = keyof typeof quantities;

export interface ConvergenceOptions {
  readonly quantity: Quantity;
  /** A level to compare with: the bound, or the length without a suffix. */
  readonly level: Level | null;
  readonly scale: ReturnType<typeof findScale>;
}

/** One scale for all drafters, with room for the levels drawn into them. */
export function findScale(
  drafters: readonly DrafterResult[],
  quantity: Quantity,
  levels: readonly (Level | null)[],
) {
  const points = drafters.flatMap((drafter) => [
    ...tracesOf(drafter, 'attack', quantity).flat(),
    ...convergenceArms.flatMap((arm) => medianTrace(tracesOf(drafter, arm, quantity))),
  ]);
  const values = [...points.map(({ y }) => y), ...levels.flatMap((level) => level?.value ?? [])];
  const steps = points.map(({ x }) => x);
  return {
    steps: largest(steps, 1),
    highest: 1.08 * largest(values.filter(Number.isFinite), quantities[quantity].floor + 0.05),
  };
}

/** What the traces fall from: the median over the prompts that were searched. */
export function cleanLevel({ prompts }: DrafterResult): Level | null {
  const searched = prompts.filter(({ traces }) => traces.length > 0);
  const value = median(searched.flatMap((prompt) => sameAnswerLength(prompt, 'clean') ?? []));
  return value === null ? null : { value, name: 'no suffix' };
}

export function hasTraces(drafters: readonly DrafterResult[]): boolean {
  return drafters.some(({ prompts }) =>
    prompts.some(({ traces }) => traces.some(({ arm }) => convergenceArms.includes(arm))),
  );
}

export function drawConvergence(result: DrafterResult, options: ConvergenceOptions): Markup {
  const { quantity, level, scale } = options;
  const { name, label, floor, text } = quantities[quantity];
  const medians = convergenceArms.map((arm) => ({
    ...armStyle(arm),
    lines: [medianTrace(tracesOf(result, arm, quantity))],
  }));
  const single = {
    ...armStyle('attack'),
    lines: tracesOf(result, 'attack', quantity),
    width: 1,
    opacity: 0.28,
  };
  const last = medians[0]?.lines[0]?.at(-1)?.y ?? NaN;
  return drawChart({
    description: `${name} on ${result.drafter} over the search; median of the attack at the end: ${text(last)}.`,
    height: 170,
    x: { label: 'search step →', domain: [0, scale.steps] },
    y: { label, domain: [floor, scale.highest] },
    series: [single, ...medians],
    levels: level === null ? [] : [level],
  });
}

/** Steps before the first suffix inside the bounds have no accepted length. */
function tracesOf({ prompts }: DrafterResult, arm: ArmName, quantity: Quantity): Point[][] {
  const pointOf = ({ step, ...point }: TracePoint): Point[] => {
    const value = point[quantity];
    return value === null ? [] : [{ x: step, y: value }];
  };
  return prompts.flatMap(({ traces }) =>
    traces.filter((trace) => trace.arm === arm).map(({ steps }) => steps.flatMap(pointOf)),
  );
}

/** Over the prompts still searching at that step. */
function medianTrace(traces: readonly (readonly Point[])[]): Point[] {
  const byStep = new Map<number, number[]>();
  for (const { x, y } of traces.flat()) byStep.set(x, [...(byStep.get(x) ?? []), y]);
  return [...byStep]
    .sort(([left], [right]) => left - right)
    .map(([step, values]) => ({ x: step, y: median(values) ?? NaN }));
}
