/** How deep drafts survive along the clean answer: the share of steps whose accepted path reached each depth. */
import * as Plot from '@observablehq/plot';
import type { ArmName } from '../../audit/arms/arms.js';
import type { DrafterResult } from '../../audit/result.js';
import { armLabels, findArm } from './arm-names.js';
import { percentText } from '../../core/number-text.js';
import type { Markup } from '../markup.js';
import { armMarks, isFilled } from './arm-marks.js';
import { drawChart } from '../chart.js';

export const depthArms: readonly ArmName[] = ['clean', 'random', 'fluent', 'undirected', 'given', 'attack'];

/** One scale for all drafters. */
export function findDeepest(drafters: readonly DrafterResult[]): number {
  const depths = drafters.flatMap(({ summary }) => summary.arms.map((row) => row.acceptanceByDepth.length));
  return Math.max(2, ...depths);
}

interface Point {
  readonly depth: number;
  readonly share: number;
}

export function drawDepthAcceptance({ drafter, summary }: DrafterResult, deepest: number): Markup {
  const series = depthArms.flatMap((arm) => {
    const shares = findArm(summary, arm)?.acceptanceByDepth ?? [];
    const points: Point[] = shares.map((share, index) => ({ depth: index + 1, share }));
    return points.length === 0 ? [] : [{ arm, points }];
  });
  return drawChart({
    description: `Share of steps that accept each draft depth of ${drafter}. ${series
      .map(
        ({ arm, points }) => `${armLabels[arm]}: ${points.map(({ share }) => percentText(share)).join(', ')}`,
      )
      .join('. ')}.`,
    options: {
      height: 250,
      marginLeft: 44,
      marginTop: 30,
      marginBottom: 40,
      marginRight: 14,
      x: {
        label: 'depth in the draft →',
        domain: [0.8, deepest + 0.2],
        ticks: Array.from({ length: deepest }, (_, index) => index + 1),
        tickFormat: 'd',
      },
      y: { label: '↑ steps that accept it (%)', percent: true, domain: [0, 100], grid: true, ticks: 5 },
      marks: [
        Plot.ruleY([0], { stroke: 'var(--line)' }),
        ...series.flatMap(({ arm, points }) => [
          Plot.line(points, {
            x: 'depth',
            y: 'share',
            stroke: armMarks[arm].color,
            strokeWidth: 2.2,
            strokeLinecap: 'butt',
            ...(armMarks[arm].dash === undefined ? {} : { strokeDasharray: armMarks[arm].dash }),
          }),
          Plot.dot(points, {
            x: 'depth',
            y: 'share',
            symbol: armMarks[arm].symbol,
            r: 4,
            stroke: armMarks[arm].color,
            fill: isFilled(arm) ? armMarks[arm].color : 'var(--card)',
            title: ({ depth, share }: Point) =>
              `${armLabels[arm]}, depth ${depth}: ${percentText(share, 1)} of steps`,
          }),
        ]),
      ],
    },
  });
}
