import { checkWorse, compareRuns } from '../report/compare/comparison.js';
import { createComparisonReport } from '../report/compare/comparison-report.js';
import { printReport, renderReportHtml } from '../report/document.js';
import { stringifyStably } from '../report/audit/write-reports.js';
import { decimal, oneOf } from '../core/settings.js';
import { type Invocation, defineCommand } from './command.js';
import { exitCodes } from './failure.js';
import { type FlagsOf, flag } from './flags.js';
import { printResult } from './long-runs.js';

const flags = {
  failIfWorse: flag(
    'exit code 100 if the drop of any drafter grew by this share (0.05: 5 points) and chance does not explain it',
    decimal({ above: 0, max: 1 }),
    'share',
  ),
  format: flag('of stdout', oneOf(['text', 'json', 'markdown', 'html']), 'format', { default: 'text' }),
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
    ['mistletoe compare runs/old runs/new --format html > compare.html', ''],
    ['mistletoe compare runs/old runs/new --format markdown --fail-if-worse 0.05', ''],
  ],
  notes:
    'Exit codes: 0 compared, 2 invalid input; with --fail-if-worse also 100 worse, 3 nothing to compare, 4 too few prompts to decide.',
  run: runCompare,
});

async function runCompare(
  { format, failIfWorse }: CompareFlags,
  { terminal, args }: Invocation,
): Promise<number> {
  const [before = '', after = ''] = args;
  const compared = await compareRuns(before, after);
  const gate = failIfWorse === undefined ? null : checkWorse(compared, failIfWorse);
  const comparison = { ...compared, gate };
  const report = createComparisonReport(comparison);
  if (format === 'html') terminal.stdout.writeData(renderReportHtml(report));
  else
    printResult(format, terminal, {
      text: () => printReport(report, 'text'),
      json: () => stringifyStably(comparison),
      markdown: () => printReport(report, 'markdown'),
    });
  return gate?.exitCode ?? exitCodes.success;
}
