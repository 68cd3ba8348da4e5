/** `mistletoe compare`. */
import { checkWorse, compareAudits } from '../report/compare/comparison.js';
import { renderComparisonMarkdown } from '../report/compare/comparison-markdown.js';
import type { Comparison } from '../report/compare/comparison-record.js';
import { renderComparisonText } from '../report/compare/comparison-text.js';
import { readFinishedRun } from '../report/compare/finished-run.js';
import { stringifyStably } from '../report/audit/json.js';
import { decimal } from '../core/settings.js';
import type { Invocation } from './command.js';
import { defineCommand } from './command.js';
import { reportFormatFlag } from './common-flags.js';
import { exitCodes } from './failure.js';
import type { FlagsOf } from './flags.js';
import { flag } from './flags.js';
import type { Output } from './terminal.js';

const flags = {
  failIfWorse: flag(
    'exit code 100 if the drop of any drafter grew by this share, as 0.05 for 5 points',
    decimal({ above: 0, max: 1 }),
    'share',
  ),
  ...reportFormatFlag,
};
type CompareFlags = FlagsOf<typeof flags>;

export const compare = defineCommand({
  name: 'compare',
  description:
    'Compares two finished audits over the prompts that both audited: accepted length, drop under attack, answers, verdicts, and differences in the setup.',
  arguments: [
    ['<before>', 'folder of a finished audit'],
    ['<after>', 'folder of another'],
  ],
  flags,
  examples: [
    ['mistletoe compare runs/target-eagle3-0-1 runs/target-eagle3-0-2', ''],
    ['mistletoe compare runs/old runs/new --format markdown --fail-if-worse 0.05', ''],
  ],
  notes:
    'Exit codes: 0 compared, 2 invalid input; with --fail-if-worse also 100 worse, 3 nothing to compare.',
  run: runCompare,
});

async function runCompare(
  { format, failIfWorse }: CompareFlags,
  { terminal, args }: Invocation,
): Promise<number> {
  const [before = '', after = ''] = args;
  const compared = compareAudits(await readFinishedRun(before), await readFinishedRun(after));
  const gate = failIfWorse === undefined ? null : checkWorse(compared, failIfWorse);
  print({ ...compared, gate }, format, terminal.stdout);
  return gate?.exitCode ?? exitCodes.success;
}

function print(comparison: Comparison, format: CompareFlags['format'], stdout: Output): void {
  switch (format) {
    case 'text':
      stdout.write(renderComparisonText(comparison));
      break;
    case 'markdown':
      stdout.write(renderComparisonMarkdown(comparison));
      break;
    case 'json':
      stdout.writeData(stringifyStably(comparison));
      break;
  }
}
