/** How deep drafts survive along the clean answer: the share of steps whose accepted path reaches each depth. */
import type { ArmName } from '../../audit/arms/arms.js';
import type { DrafterResult } from '../../audit/result.js';
import { percentText } from '../../core/number-text.js';
import { drawChart } from '../chart.js';
import type { MarkStyle } from '../chart.js';
import type { Markup } from '../markup.js';
import { armStyle } from './arm-marks.js';
import { findArm } from './arm-names.js';

export const depthArms: readonly ArmName[] = ['clean', 'random', 'fluent', 'undirected', 'given', 'attack'];

/** One scale for all drafters. */
export function findDeepest(drafters: readonly DrafterResult[]): number {
  const depths = drafters.flatMap(({ summary }) => summary.arms.map((row) => row.acceptanceByDepth.length));
  return Math.max(2, ...depths);
}

export function drawDepthAcceptance({ drafter, summary }: DrafterResult, deepest: number): Markup {
  return drawDepths(
    `Share of steps that accept each draft depth of ${drafter}.`,
    deepest,
    depthArms.map((arm) => ({
      style: armStyle(arm),
      shares: findArm(summary, arm)?.acceptanceByDepth ?? [],
    })),
  );
}

export interface DepthShares {
  readonly style: MarkStyle;
  /** [depth - 1] */
  readonly shares: readonly number[];
}

export function drawDepths(
  title: string,
  deepest: number,
  rows: readonly DepthShares[],
  hasKey = false,
): Markup {
  const present = rows.filter(({ shares }) => shares.length > 0);
  const series = present.map(({ style, shares }) => {
    const dots = shares.map((share, index) => ({
      x: index + 1,
      y: 100 * share,
      title: `${style.name}, depth ${index + 1}: ${percentText(share, 1)} of steps`,
    }));
    return { ...style, lines: [dots], dots };
  });
  const spoken = present.map(
    ({ style, shares }) => `${style.name}: ${shares.map((share) => percentText(share)).join(', ')}.`,
  );
  return drawChart({
    description: `${title} ${spoken.join(' ')}`,
    height: 190,
    x: {
      label: 'depth in the draft →',
      domain: [0.8, deepest + 0.2],
      ticks: Array.from({ length: deepest }, (_, index) => ({ at: index + 1, text: String(index + 1) })),
    },
    y: { label: '↑ steps that accept it (%)', domain: [0, 100] },
    key: hasKey ? present.map(({ style }) => style) : undefined,
    series,
  });
}
