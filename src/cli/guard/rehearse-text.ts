/** A rehearsal in words: what each stage cost, and when the alarm rang. */
import type { Rehearsal, RehearsalStage } from '../../guard/rehearsal.js';

export function formatRehearsal({ usual, plainTokensPerSecond, stages, areAnswersKept }: Rehearsal): string {
  const row = (name: string, stage: RehearsalStage): string[] => {
    const { meanAcceptedLength, tokensPerSecond, stepMs, alarms, requests } = stage;
    return [
      name,
      meanAcceptedLength.toFixed(2),
      `${stepMs.draft.toFixed(1)} + ${stepMs.verify.toFixed(1)} ms`,
      tokensPerSecond.toFixed(0),
      timesOf(tokensPerSecond, usual.tokensPerSecond),
      timesOf(tokensPerSecond, plainTokensPerSecond),
      describeAlarms(alarms, requests),
    ];
  };
  const table = [
    [
      ...['draft tokens', 'accepted length', 'draft + verify', 'tokens/s', 'against usual', 'against plain'],
      'requests that rang',
    ],
    row('as usual', usual),
    ...stages.map((stage) => row(`${(100 * stage.spoiledShare).toFixed(0)} % spoiled`, stage)),
    [
      'none (plain)',
      '1.00',
      plainTokensPerSecond === 0 ? '-' : `${(1000 / plainTokensPerSecond).toFixed(1)} ms`,
      plainTokensPerSecond.toFixed(0),
      timesOf(plainTokensPerSecond, usual.tokensPerSecond),
      '1.00x',
      '-',
    ],
  ];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((cells) => cells[column]!.length)));
  const lines = table.map((cells) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  const first = stages.flatMap((stage) => stage.alarms.map((rung) => ({ ...rung, stage })))[0];
  const ring =
    first === undefined
      ? 'The alarm did not ring.'
      : `The alarm rang first with ${(100 * first.stage.spoiledShare).toFixed(0)} % spoiled, in request ${first.request}, after ${first.tokens} tokens of its answer:\n${first.alarm.text}`;
  const answers = areAnswersKept
    ? 'Every answer was that of plain decoding, to the token.'
    : 'Some answers were not those of plain decoding: drafts that fail must not change answers. Look into this first.';
  const price =
    'A step takes much the same time whatever is accepted: with nothing accepted, one token costs a draft and the pass that refuses it.';
  return `${[...lines, '', price, ring, answers].join('\n')}\n`;
}

const timesOf = (speed: number, other: number): string =>
  other === 0 ? '-' : `${(speed / other).toFixed(2)}x`;

function describeAlarms(alarms: RehearsalStage['alarms'], requests: number): string {
  const rang = new Set(alarms.map(({ request }) => request)).size;
  const first = alarms[0];
  return first === undefined ? `0 of ${requests}` : `${rang} of ${requests}, after ${first.tokens} tokens`;
}
