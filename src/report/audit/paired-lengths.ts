/**
 * Each prompt is one line: from its accepted length without a suffix to that with one, both along the clean answer; the
 * controls are open marks. Seeds and draws of a prompt are pooled, as in the tests.
 */
import type { ArmName } from '../../audit/arms/arms.js';
import { arms } from '../../audit/arms/arms.js';
import type { DrafterResult } from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { largest } from '../../core/long-lists.js';
import { acceptedLengthText } from '../../core/number-text.js';
import type { Series } from '../chart.js';
import { drawChart } from '../chart.js';
import type { Markup } from '../markup.js';
import { armStyle } from './arm-marks.js';
import { armLabels, sameAnswerLength } from './arm-names.js';

const audited = ({ prompts }: DrafterResult) => prompts.filter(({ skipped }) => skipped === null);

/** One scale for all drafters. */
export function findLongest(drafters: readonly DrafterResult[]): number {
  const lengths = drafters.flatMap((drafter) =>
    audited(drafter).flatMap((prompt) => arms.map((arm) => sameAnswerLength(prompt, arm) ?? NaN)),
  );
  return 1.04 * largest(lengths.filter(Number.isFinite), 2);
}

/** Controls are drawn a little above or below the line, where the clean mark does not hide them; in rows. */
const offsets: Readonly<Partial<Record<ArmName, number>>> = {
  'clean-again': -0.27,
  'preservation-only': -0.27,
  undirected: -0.27,
  random: 0.27,
  fluent: 0.27,
};

export function drawPairedLengths(result: DrafterResult, longest: number): Markup {
  const counted = countedArm(result.prompts);
  const pairs = audited(result)
    .map((prompt) => ({
      prompt,
      clean: sameAnswerLength(prompt, 'clean') ?? NaN,
      attacked: sameAnswerLength(prompt, counted) ?? NaN,
    }))
    .sort((left, right) => right.clean - right.attacked - (left.clean - left.attacked));
  const dotsOf = (arm: ArmName): Series => ({
    ...armStyle(arm),
    dots: pairs.flatMap(({ prompt }, row) => {
      const length = sameAnswerLength(prompt, arm);
      const title = `${prompt.promptId}, ${armLabels[arm]}: ${acceptedLengthText(length)} tokens per step`;
      return length === null ? [] : [{ x: length, y: row + (offsets[arm] ?? 0), title }];
    }),
  });
  const controls = [...arms].reverse().filter((arm) => arm !== counted && arm !== 'clean');
  const spoken = pairs.map(
    ({ prompt, clean, attacked }) =>
      `${prompt.promptId} ${acceptedLengthText(clean)} to ${acceptedLengthText(attacked)}`,
  );
  return drawChart({
    description: `Accepted length of ${result.drafter} along the clean answers, prompt by prompt: ${spoken.join(', ')}.`,
    height: (pairs.length > 24 ? 24 : 36) * pairs.length,
    x: { label: 'accepted length along the clean answer (tokens per step) →', domain: [1, longest] },
    y: {
      domain: [pairs.length - 0.5, -0.5],
      ticks: pairs.map(({ prompt }, row) => ({ at: row, text: shorten(prompt.promptId) })),
    },
    series: [
      {
        ...armStyle(counted),
        lines: pairs.map(({ clean, attacked }, row) => [
          { x: clean, y: row },
          { x: attacked, y: row },
        ]),
        opacity: 0.55,
      },
      ...[...controls, 'clean' as const, counted].map(dotsOf),
    ],
  });
}

function shorten(promptId: string): string {
  const characters = Array.from(promptId);
  return characters.length > 16 ? `${characters.slice(0, 15).join('')}…` : promptId;
}
