/**
 * Each prompt is one line: from its accepted length without a suffix to that with one, both along the clean answer; the
 * controls are open marks. Seeds and draws of a prompt are pooled, as in the tests.
 */
import * as Plot from '@observablehq/plot';
import { largest } from '../../core/long-lists.js';
import type { ArmName } from '../../audit/arms/arms.js';
import { arms } from '../../audit/arms/arms.js';
import type { DrafterResult } from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { armLabels, sameAnswerLength } from './arm-names.js';
import { acceptedLengthText } from '../../core/number-text.js';
import { showInvisible } from '../escape.js';
import type { Markup } from '../markup.js';
import { armMarks, isFilled } from './arm-marks.js';
import { drawChart } from '../chart.js';

interface Point {
  /** The row: ids may repeat and are cut for the axis, so they cannot be it. */
  readonly row: number;
  readonly prompt: string;
  readonly arm: ArmName;
  readonly length: number;
}

interface Pair {
  readonly row: number;
  readonly prompt: string;
  readonly clean: number;
  readonly attacked: number;
}

/** One scale for all drafters. */
export function findLongest(drafters: readonly DrafterResult[]): number {
  const lengths = drafters.flatMap((drafter) => listPoints(drafter).map(({ length }) => length));
  return 1.04 * largest(lengths.filter(Number.isFinite), 2);
}

function listPoints({ prompts }: DrafterResult): Point[] {
  const audited = prompts.filter(({ skipped }) => skipped === null);
  return audited.flatMap((prompt, row) =>
    arms.flatMap((arm) => {
      const length = sameAnswerLength(prompt, arm);
      return length === null ? [] : [{ row, prompt: prompt.promptId, arm, length }];
    }),
  );
}

export function drawPairedLengths(result: DrafterResult, longest: number): Markup {
  const { drafter, prompts } = result;
  const audited = prompts.filter(({ skipped }) => skipped === null);
  const points = listPoints(result);
  const counted = countedArm(prompts);
  const pairs: Pair[] = audited
    .map((prompt, row) => ({
      row,
      prompt: prompt.promptId,
      clean: sameAnswerLength(prompt, 'clean') ?? NaN,
      attacked: sameAnswerLength(prompt, counted) ?? NaN,
    }))
    .sort((left, right) => right.clean - right.attacked - (left.clean - left.attacked));
  const labels = audited.map(({ promptId }) => shorten(promptId));
  const rowHeight = pairs.length > manyRows ? 24 : 38;
  const controls = [...arms].reverse().filter((arm) => arm !== counted && arm !== 'clean');
  return drawChart({
    description: `Accepted length of ${drafter} along the clean answers, prompt by prompt: ${pairs.map(describePair).join(', ')}.`,
    options: {
      height: 62 + rowHeight * pairs.length,
      marginTop: 8,
      marginLeft:
        8 +
        7 *
          largest(
            labels.map(({ length }) => length),
            4,
          ),
      marginBottom: 40,
      marginRight: 14,
      x: {
        label: 'accepted length along the clean answer (tokens a step) →',
        labelAnchor: 'left',
        domain: [1, longest],
        grid: true,
        ticks: 5,
      },
      y: {
        type: 'point',
        label: null,
        domain: pairs.map(({ row }) => row),
        tickFormat: (row: number) => labels[row] ?? '',
        tickSize: 0,
      },
      marks: [
        Plot.ruleY(pairs, { y: 'row', x1: 1, x2: longest, stroke: 'var(--line)' }),
        Plot.arrow(pairs, {
          x1: 'clean',
          x2: 'attacked',
          y: 'row',
          stroke: 'var(--attack)',
          strokeWidth: 2.4,
          strokeOpacity: 0.55,
          headLength: 0,
          inset: 5,
        }),
        ...[...controls, 'clean' as const, counted].map((arm) => drawDots(points, arm, rowHeight)),
      ],
    },
  });
}

const manyRows = 24;

/** Controls stand a little above or below the line, where the clean mark does not hide them; shares of a row. */
const lanes: Readonly<Partial<Record<ArmName, number>>> = {
  'clean-again': -0.27,
  'preservation-only': -0.27,
  undirected: -0.27,
  random: 0.27,
  fluent: 0.27,
};

function drawDots(points: readonly Point[], arm: ArmName, rowHeight: number): Plot.Markish {
  const { color, symbol } = armMarks[arm];
  const filled = isFilled(arm);
  return Plot.dot(
    points.filter((point) => point.arm === arm),
    {
      x: 'length',
      y: 'row',
      symbol,
      dy: (lanes[arm] ?? 0) * rowHeight,
      r: filled ? 5 : 3.6,
      stroke: color,
      strokeWidth: 1.4,
      fill: filled ? color : 'none',
      title: ({ prompt, length }: Point) =>
        `${showInvisible(prompt)}, ${armLabels[arm]}: ${acceptedLengthText(length)} tokens a step`,
    },
  );
}

function describePair({ prompt, clean, attacked }: Pair): string {
  return `${showInvisible(prompt)} ${acceptedLengthText(clean)} to ${acceptedLengthText(attacked)}`;
}

function shorten(promptId: string): string {
  const characters = Array.from(showInvisible(promptId));
  return characters.length > 16 ? `${characters.slice(0, 15).join('')}…` : characters.join('');
}
