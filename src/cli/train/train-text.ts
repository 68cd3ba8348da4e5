/** A finished training run in a terminal: its effect, the drafters' folders, and commands to try. */
import { join } from 'node:path';
import { acceptedLengthText, changeText, durationText, groupThousands } from '../../core/number-text.js';
import { describeEnd, describeTexts } from '../../report/training/training-markdown.js';
import type { TrainingResult } from '../../train/training-result.js';
import { alignRows, describeNext, typedPath } from '../long-runs.js';
import type { Colors } from '../terminal.js';

export interface TrainTextOptions {
  readonly folder: string;
  readonly report: string;
  /** Folder of the target, unless it is the bundled one. */
  readonly target: string | undefined;
  readonly colors: Colors;
}

export function formatTraining(
  result: TrainingResult,
  { folder, report, target, colors }: TrainTextOptions,
): string {
  const best = typedPath(join(folder, 'best'));
  const lines = [
    ...drawLengths(result, colors),
    `${describeEnd(result)}, in ${durationText(result.elapsedMs)}`,
    describeTexts(result),
    '',
    `${colors.bold('best')}  ${best}`,
    `${colors.bold('last')}  ${typedPath(join(folder, 'last'))}`,
    '',
    ...describeNext(best, target === undefined ? undefined : typedPath(target)),
    '',
    `Report: ${report}`,
  ];
  return `${lines.map((line) => line.replace(/[\r\n]/g, ' ')).join('\n')}\n`;
}

function drawLengths({ lengths, settings }: TrainingResult, colors: Colors): string[] {
  if (lengths === undefined)
    return ['No text was held out; run `mistletoe bench` to measure the accepted length.'];
  const { first, best, last } = lengths;
  const row = (name: string, line: typeof first): string[] => [
    name,
    acceptedLengthText(line.length),
    line === first ? '–' : changeText(line.length / first.length - 1),
    groupThousands(line.update),
  ];
  const [heading = '', ...rows] = alignRows([
    ['', 'accepted length', 'change', 'after update'],
    ...[row('before', first), row('best', best), row('after', last)],
  ]);
  const legend = `accepted length: tokens a step on held-out texts, with drafts of ${settings.chain}`;
  return [colors.dim(heading), ...rows, colors.dim(legend), ''];
}
