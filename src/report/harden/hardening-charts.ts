/** Each drafter of an audit: its accepted length without a suffix and under attack, with the intervals of both. */
import * as Plot from '@observablehq/plot';
import { largest } from '../../core/long-lists.js';
import type { Interval } from '../../measure/bootstrap.js';
import { drawChart } from '../chart.js';
import type { Markup } from '../markup.js';
import { nothing } from '../markup.js';
import { acceptedLengthText } from '../../core/number-text.js';
import type { AuditComparison } from '../../train/harden/hardening-result.js';
import { roleNames } from './hardening-words.js';

interface Mark extends Interval {
  readonly drafter: string;
  readonly arm: 'clean' | 'attacked';
}

/** Beside each other rather than on each other: intervals of the two may overlap. */
const styles = {
  clean: { color: 'var(--accent)', dy: -6, symbol: 'circle' },
  attacked: { color: 'var(--attack)', dy: 6, symbol: 'square' },
} as const;

export function drawAuditLengths({ rows }: AuditComparison): Markup {
  const marks = rows.flatMap(({ role, clean, attacked }): Mark[] => [
    ...(clean === null ? [] : [{ ...clean, drafter: roleNames[role], arm: 'clean' } as const]),
    ...(attacked === null ? [] : [{ ...attacked, drafter: roleNames[role], arm: 'attacked' } as const]),
  ]);
  if (marks.length === 0) return nothing;
  const told = marks.map(
    ({ drafter, arm, estimate }) => `${drafter}, ${arm}: ${acceptedLengthText(estimate)}`,
  );
  const names = [...new Set(marks.map(({ drafter }) => drafter))];
  return drawChart({
    description: `Accepted length of each drafter with its interval. ${told.join('. ')}.`,
    options: {
      ...{
        height: 70 + 44 * names.length,
        marginLeft: 118,
        marginTop: 22,
        marginBottom: 40,
        marginRight: 18,
      },
      x: {
        ...{ label: 'accepted length along the clean answer (tokens a step) →', labelAnchor: 'left' },
        ...{
          domain: [
            1,
            1.04 *
              largest(
                marks.map(({ high }) => high),
                2,
              ),
          ],
          grid: true,
          ticks: 5,
        },
      },
      y: { type: 'point', domain: names, label: null, padding: 0.6 },
      marks: (['clean', 'attacked'] as const).flatMap((arm, index) => {
        const own = marks.filter((mark) => mark.arm === arm);
        const { color, dy, symbol } = styles[arm];
        return [
          Plot.ruleY(own, {
            ...{ x1: 'low', x2: 'high', y: 'drafter', stroke: color, strokeWidth: 3, strokeOpacity: 0.4, dy },
          }),
          Plot.dot(own, {
            ...{ x: 'estimate', y: 'drafter', r: 4.5, fill: color, symbol, dy },
            title: ({ drafter, estimate, low, high }: Mark) =>
              `${drafter}, ${arm}: ${[estimate, low, high].map(acceptedLengthText).join(', ')}`,
          }),
          Plot.text([arm], {
            ...{
              text: [arm],
              frameAnchor: 'top-left',
              dx: 74 * index,
              dy: -18,
              fill: color,
              fontWeight: 600,
            },
          }),
        ];
      }),
    },
  });
}
