/**
 * The search, step by step. Thin lines are the attack on single prompts, thick ones the median over prompts; the chart
 * of the divergence has the bound that no kept suffix may pass.
 */
import * as Plot from '@observablehq/plot';
import { largest } from '../../core/long-lists.js';
import type { ArmName } from '../../audit/arms/arms.js';
import type { DrafterResult, TracePoint } from '../../audit/result.js';
import { armLabels, sameAnswerLength } from './arm-names.js';
import { acceptedLengthText, divergenceText } from '../../core/number-text.js';
import { median } from './timing-summary.js';
import type { Markup } from '../markup.js';
import { armMarks } from './arm-marks.js';
import { drawChart } from '../chart.js';

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
    label: '↑ KL (nats a token)',
    floor: 0,
    text: divergenceText,
  },
} as const;
type Quantity = keyof typeof quantities;

interface Level {
  readonly value: number;
  readonly name: string;
}

export interface ConvergenceScale {
  readonly steps: number;
  readonly highest: number;
}

export interface ConvergenceOptions {
  readonly quantity: Quantity;
  /** A level to compare with: the bound, or the length without a suffix. */
  readonly level: Level | null;
  readonly scale: ConvergenceScale;
}

interface Point {
  readonly step: number;
  readonly value: number;
}

/** One scale for all drafters, with room for the levels drawn into them. */
export function findScale(
  drafters: readonly DrafterResult[],
  quantity: Quantity,
  levels: readonly (Level | null)[],
): ConvergenceScale {
  const points = drafters.flatMap((drafter) => [
    ...tracesOf(drafter, 'attack').flatMap((steps) => pointsOf(steps, quantity)),
    ...convergenceArms.flatMap((arm) => medianTrace(tracesOf(drafter, arm), quantity)),
  ]);
  const values = [...points.map(({ value }) => value), ...levels.flatMap((level) => level?.value ?? [])];
  return {
    steps: largest(
      points.map(({ step }) => step),
      1,
    ),
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
  return drafters.some((drafter) => convergenceArms.some((arm) => tracesOf(drafter, arm).length > 0));
}

export function drawConvergence(result: DrafterResult, options: ConvergenceOptions): Markup {
  const { quantity, level, scale } = options;
  const single = tracesOf(result, 'attack').map((steps) => pointsOf(steps, quantity));
  const medians = convergenceArms.map((arm) => ({
    arm,
    points: medianTrace(tracesOf(result, arm), quantity),
  }));
  const { name, label, floor, text } = quantities[quantity];
  const last = medians[0]?.points.at(-1);
  return drawChart({
    description:
      `${name} on ${result.drafter} over the search; ` +
      `median of the attack at the end: ${text(last?.value ?? NaN)}.`,
    options: {
      height: 220,
      marginLeft: 48,
      marginTop: 30,
      marginBottom: 40,
      marginRight: 14,
      x: { label: 'search step →', domain: [0, scale.steps], ticks: 5 },
      y: { label, domain: [floor, scale.highest], grid: true, ticks: 5 },
      marks: [
        ...(level === null ? [] : [drawLevel(level)]),
        ...single.map((points) =>
          Plot.line(points, {
            x: 'step',
            y: 'value',
            stroke: 'var(--attack)',
            strokeWidth: 1,
            strokeOpacity: 0.28,
          }),
        ),
        ...medians.map(({ arm, points }) =>
          Plot.line(points, {
            x: 'step',
            y: 'value',
            stroke: armMarks[arm].color,
            strokeWidth: 2.2,
            strokeLinecap: 'butt',
            ...(armMarks[arm].dash === undefined ? {} : { strokeDasharray: armMarks[arm].dash }),
            title: () => `${armLabels[arm]}, median`,
          }),
        ),
        ...(level === null ? [] : [nameLevel(level)]),
      ],
    },
  });
}

function drawLevel({ value }: Level): Plot.Markish {
  return Plot.ruleY([value], { stroke: 'var(--accent)', strokeWidth: 1.4, strokeDasharray: '7 4' });
}

function nameLevel({ value, name }: Level): Plot.Markish {
  return Plot.text([value], {
    y: (at: number) => at,
    text: () => name,
    frameAnchor: 'right',
    textAnchor: 'end',
    dx: -4,
    dy: -8,
    fill: 'var(--accent)',
    stroke: 'var(--card)',
    strokeWidth: 4,
  });
}

function tracesOf({ prompts }: DrafterResult, arm: ArmName): (readonly TracePoint[])[] {
  return prompts.flatMap(({ traces }) =>
    traces.filter((trace) => trace.arm === arm).map(({ steps }) => steps),
  );
}

/** Steps before the first suffix inside the bounds have no accepted length. */
function pointsOf(steps: readonly TracePoint[], quantity: Quantity): Point[] {
  return steps.flatMap((point) => {
    const value = point[quantity];
    return value === null ? [] : [{ step: point.step, value }];
  });
}

/** Over the prompts still searching at that step. */
function medianTrace(traces: readonly (readonly TracePoint[])[], quantity: Quantity): Point[] {
  const byStep = new Map<number, number[]>();
  for (const { step, value } of traces.flatMap((steps) => pointsOf(steps, quantity))) {
    const values = byStep.get(step) ?? [];
    values.push(value);
    byStep.set(step, values);
  }
  return [...byStep]
    .sort(([left], [right]) => left - right)
    .map(([step, values]) => ({ step, value: median(values) ?? NaN }));
}
