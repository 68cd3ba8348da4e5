/**
 * The search, step by step. Thin lines are the attack on single prompts, thick ones the median over prompts; the
 * preservation chart has the bound that no kept suffix may pass.
 */
import * as Plot from '@observablehq/plot';
import type { ArmName, DrafterResult, TracePoint } from '../../../audit/result.js';
import { armLabels } from '../../arm-names.js';
import { acceptedLengthText, divergenceText, fixed } from '../../number-text.js';
import { median } from '../../timing-summary.js';
import type { Markup } from '../markup.js';
import { armMarks } from './arm-marks.js';
import { drawChart } from './draw-chart.js';

export const convergenceArms: readonly ArmName[] = ['attack', 'unprojected', 'preservation-only'];

const quantities = {
  acceptedLength: {
    name: 'Lowest accepted length decoded so far',
    label: '↑ lowest accepted length so far',
    text: acceptedLengthText,
  },
  degradation: {
    name: 'Degradation objective',
    label: '↑ degradation (objective)',
    text: (value: number) => fixed(value, 3),
  },
  divergence: {
    name: 'Preservation divergence',
    label: '↑ KL of the answer (nats)',
    text: divergenceText,
  },
} as const;
type Quantity = keyof typeof quantities;

export interface ConvergenceOptions {
  readonly quantity: Quantity;
  /** The preservation bound; null where it is not drawn. */
  readonly bound: number | null;
}

interface Point {
  readonly step: number;
  readonly value: number;
}

export function drawConvergence(result: DrafterResult, { quantity, bound }: ConvergenceOptions): Markup {
  const single = tracesOf(result, 'attack').map((steps) => pointsOf(steps, quantity));
  const medians = convergenceArms.map((arm) => ({
    arm,
    points: medianTrace(tracesOf(result, arm), quantity),
  }));
  const { name, label, text } = quantities[quantity];
  const last = medians[0]?.points.at(-1);
  return drawChart({
    description:
      `${name} of ${result.drafter} over the search; ` +
      `median of the attack at the end: ${text(last?.value ?? NaN)}.`,
    options: {
      height: 220,
      marginLeft: 48,
      marginTop: 30,
      marginBottom: 40,
      marginRight: 14,
      x: { label: 'search step →', ticks: 5 },
      y: {
        label,
        grid: true,
        ticks: 5,
        zero: true,
        nice: true,
      },
      marks: [
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
        ...(bound === null ? [] : drawBound(bound)),
      ],
    },
  });
}

function drawBound(bound: number): Plot.Markish[] {
  return [
    Plot.ruleY([bound], { stroke: 'var(--ink)', strokeWidth: 1.4, strokeDasharray: '7 4' }),
    Plot.text([bound], {
      y: (value: number) => value,
      text: () => `bound ε = ${bound}`,
      frameAnchor: 'left',
      textAnchor: 'start',
      dx: 6,
      dy: -8,
      fill: 'var(--ink)',
      stroke: 'var(--card)',
      strokeWidth: 4,
    }),
  ];
}

function tracesOf({ prompts }: DrafterResult, arm: ArmName): (readonly TracePoint[])[] {
  return prompts.flatMap(({ traces }) =>
    traces.filter((trace) => trace.arm === arm).map(({ steps }) => steps),
  );
}

/** Steps before the first suffix that keeps the answer have no accepted length. */
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
