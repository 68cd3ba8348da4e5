import { checkWorse, compareAudits } from '../report/comparison.js';
import { renderComparisonMarkdown } from '../report/comparison-markdown.js';
import type { Comparison } from '../report/comparison-record.js';
import { renderComparisonText } from '../report/comparison-text.js';
import { readFinishedRun } from '../report/finished-run.js';
import { stringifyStably } from '../report/json.js';
import type { CompareFlags } from './compare-command.js';
import { exitCodes } from './failure.js';
import type { Terminal } from './terminal.js';
import { withoutControls } from './terminal.js';

export async function runCompare(
  before: string,
  after: string,
  { format, failIfWorse }: CompareFlags,
  { stdout }: Terminal,
): Promise<number> {
  const compared = compareAudits(await readFinishedRun(before), await readFinishedRun(after));
  const gate = failIfWorse === undefined ? null : checkWorse(compared, failIfWorse);
  stdout.write(render({ ...compared, gate }, format));
  return gate?.exitCode ?? exitCodes.success;
}

function render(comparison: Comparison, format: CompareFlags['format']): string {
  switch (format) {
    case 'text':
      return withoutControls(renderComparisonText(comparison));
    case 'markdown':
      return renderComparisonMarkdown(comparison);
    case 'json':
      return stringifyStably(comparison);
  }
}
