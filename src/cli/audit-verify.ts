import type { RunVerification } from '../report/audit/verify-run.js';
import { verifyFinishedRun } from '../report/audit/verify-run.js';
import { countText } from '../core/number-text.js';
import { asOneLine } from './clean-text.js';
import { exitCodes } from './failure.js';
import type { Output } from './terminal.js';

/** What is not as it was written is thrown, with its place. */
export async function runVerify(folder: string, format: string, stdout: Output): Promise<number> {
  const verified = await verifyFinishedRun(folder);
  if (format === 'json') stdout.writeData(`${JSON.stringify(verified, undefined, 2)}\n`);
  else stdout.write(describeVerified(verified));
  return exitCodes.success;
}

function describeVerified({ folder, version, units, steps, sha256, result }: RunVerification): string {
  const results: Readonly<Record<RunVerification['result'], string>> = {
    follows: 'result.json and suffixes.jsonl follow from them.',
    unfinished: 'The run has not ended: there is no result.json.',
    'other-version': `result.json is of Mistletoe ${version} and was not made again.`,
  };
  const counts = `${countText(units, 'unit')} and ${countText(steps, 'step')}`;
  return [
    asOneLine(`${folder}: config.json, ${counts} are as they were written.`),
    asOneLine(results[result]),
    `sha256 ${sha256}`,
    '',
  ].join('\n');
}
