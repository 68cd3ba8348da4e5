/**
 * The search, step by step. Thin lines are the attack on single prompts, thick ones the median over prompts; the
 * preservation chart has the bound that no kept suffix may pass.
 */
import * as Plot from '@observablehq/plot';
import type { ArmName, DrafterResult, TracePoint } from '../../../audit/result.js';
import { armLabels } from '../../arm-names.js';
import { divergenceText, fixed } from '../../number-text.js';
import { median } from '../../timing-summary.js';
import type { Markup } from '../markup.js';
import { armMarks } from './arm-marks.js';
import { drawChart } from './draw-chart.js';

export const convergenceArms: readonly ArmName[] = ['attack', 'unprojected', 'preservation-only'];

export interface ConvergenceOptions {
  readonly quantity: 'degradation' | 'divergence';
  /** The preservation bound; null where it is not drawn. */
  readonly bound: number | null;
}

interface Point {
  readonly step: number;
  readonly value: number;
}

export function drawConvergence(result: DrafterResult, { quantity, bound }: ConvergenceOptions): Markup {
  const single = tracesOf(result, 'attack').map((steps) => steps.map((step) => pointOf(step, quantity)));
  const medians = convergenceArms.map((arm) => ({
    arm,
    points: medianTrace(tracesOf(result, arm), quantity),
  }));
  const isDivergence = quantity === 'divergence';
  const text = isDivergence ? divergenceText : (value: number) => fixed(value, 3);
  const last = medians[0]?.points.at(-1);
  return drawChart({
    description:
      `${isDivergence ? 'Preservation divergence' : 'Degradation objective'} of ${result.drafter} over the search; ` +
      `median of the attack at the end: ${text(last?.value ?? NaN)}.`,
    options: {
      height: 220,
      marginLeft: 48,
      marginTop: 30,
      marginBottom: 40,
      marginRight: 14,
      x: { label: 'search step →', ticks: 5 },
      y: {
        label: isDivergence ? '↑ KL of the answer (nats)' : '↑ degradation (objective)',
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

function pointOf(point: TracePoint, quantity: ConvergenceOptions['quantity']): Point {
  return { step: point.step, value: point[quantity] };
}

/** Over the prompts still searching at that step. */
function medianTrace(
  traces: readonly (readonly TracePoint[])[],
  quantity: ConvergenceOptions['quantity'],
): Point[] {
  const byStep = new Map<number, number[]>();
  for (const point of traces.flat()) {
    const values = byStep.get(point.step) ?? [];
    values.push(point[quantity]);
    byStep.set(point.step, values);
  }
  return [...byStep]
    .sort(([left], [right]) => left - right)
    .map(([step, values]) => ({ step, value: median(values) ?? NaN }));
}
