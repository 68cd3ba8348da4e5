/** A rehearsal as text: what each stage cost, and what the guard said. */
import type { Rehearsal, RehearsalStage } from '../../guard/rehearse/rehearsal.js';

export function formatRehearsal(rehearsal: Rehearsal): string {
  const { usual, plainTokensPerSecond, breakEven, stages, areAnswersKept } = rehearsal;
  const row = (name: string, stage: RehearsalStage): string[] => {
    const { meanAcceptedLength, tokensPerSecond, stepMs } = stage;
    return [
      name,
      meanAcceptedLength.toFixed(2),
      `${stepMs.draft.toFixed(1)} + ${stepMs.verify.toFixed(1)} ms`,
      tokensPerSecond.toFixed(0),
      timesOf(tokensPerSecond, usual.tokensPerSecond),
      timesOf(tokensPerSecond, plainTokensPerSecond),
      describeVerdicts(stage),
    ];
  };
  const table = [
    [
      ...['draft tokens', 'accepted length', 'draft + verify', 'tokens/s', 'against usual', 'against plain'],
      'collapsed or low',
    ],
    row('as usual', usual),
    ...stages.map((stage) => row(`${(100 * stage.spoiledShare).toFixed(0)} % replaced`, stage)),
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
  const first = stages
    .flatMap(({ verdicts, spoiledShare }) => verdicts.map((verdict) => ({ ...verdict, spoiledShare })))
    .find(({ name }) => name === 'collapsed' || name === 'low');
  const noticed =
    first === undefined
      ? 'The guard called no request collapsed or low.'
      : `The guard noticed it first with ${(100 * first.spoiledShare).toFixed(0)} % replaced (${first.name}): ${first.reason}`;
  const answers = areAnswersKept
    ? 'Every answer equals that of plain decoding, to the token.'
    : 'Some answers differ from plain decoding: rejected drafts must not change answers. Look into this first.';
  const cost =
    `A drafted step takes as long as ${breakEven.toFixed(2)} plain tokens here. ` +
    `Set breakEven: ${breakEven.toFixed(2)} in the guard's config to judge by it.`;
  return `${[...lines, '', cost, noticed, answers].join('\n')}\n`;
}

const timesOf = (speed: number, other: number): string =>
  other === 0 ? '-' : `${(speed / other).toFixed(2)}x`;

function describeVerdicts({ verdicts }: RehearsalStage): string {
  const count = verdicts.filter(({ name }) => name === 'collapsed' || name === 'low').length;
  return `${count} of ${verdicts.length}`;
}
