import { checkWorse, compareAudits } from '../report/compare/comparison.js';
import type { Comparison } from '../report/compare/comparison-record.js';
import {
  renderComparisonHtml,
  renderComparisonMarkdown,
  renderComparisonText,
} from '../report/compare/comparison-report.js';
import { readFinishedRun } from '../report/compare/finished-run.js';
import { stringifyStably } from '../report/audit/json.js';
import type { CompareFlags } from './command-flags.js';
import { exitCodes } from './failure.js';
import type { Output, Terminal } from './terminal.js';

export async function runCompare(
  before: string,
  after: string,
  { format, failIfWorse }: CompareFlags,
  { stdout }: Terminal,
): Promise<number> {
  const compared = compareAudits(await readFinishedRun(before), await readFinishedRun(after));
  const gate = failIfWorse === undefined ? null : checkWorse(compared, failIfWorse);
  print({ ...compared, gate }, format, stdout);
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
    case 'html':
      stdout.writeData(renderComparisonHtml(comparison));
      break;
    case 'json':
      stdout.writeData(stringifyStably(comparison));
      break;
  }
}
