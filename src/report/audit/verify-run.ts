/**
 * Checks that a run is unchanged since it was written: its units by their chain of hashes, its result by recomputing it
 * from them. Times and the gate are not part of the units and cannot be checked.
 */
import { join } from 'node:path';
import * as z from '../../core/schema.js';
import { requestSchema } from '../../audit/audit-request.js';
import { readRequest } from '../../runs/resumed-run.js';
import { readVersion } from '../../runs/identity.js';
import { rebuildResult } from '../../audit/run-audit.js';
import type { AuditResult } from '../../audit/result.js';
import { verifyRun } from '../../runs/run-units.js';
import { isMissing, readBoundedFile } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { fileLimits } from '../../core/limits.js';
import { renderResult, renderSuffixes } from './write-reports.js';
import { judge } from './verdict.js';

export interface RunVerification {
  readonly folder: string;
  readonly version: string;
  readonly units: number;
  readonly steps: number;
  /** The end of the chain over config.json and the units. */
  readonly sha256: string;
  /** Another version may summarize the same units differently, so its result is not recomputed. */
  readonly result: 'follows' | 'unfinished' | 'other-version';
}

/** Throws an error that names the changed file and the line. */
export async function verifyFinishedRun(folder: string): Promise<RunVerification> {
  const run = verifyRun(folder);
  const { units, steps, sha256 } = run;
  const request = readRequest(folder, requestSchema, 'audit');
  const checked = { folder, version: request.version, units, steps, sha256 };
  const path = join(folder, 'result.json');
  const text = await readIfThere(path);
  if (text === undefined) return { ...checked, result: 'unfinished' };
  if (request.version !== readVersion()) return { ...checked, result: 'other-version' };
  const result = rebuildResult(request, run);
  compareLines(path, renderExpected(text, result), text);
  const suffixes = join(folder, 'suffixes.jsonl');
  const found = await readIfThere(suffixes);
  if (found === undefined) throw refuse(`${suffixes} is missing, although the run has ended`);
  compareLines(suffixes, renderSuffixes(result), found);
  return { ...checked, result: 'follows' };
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    const bytes = await readBoundedFile(path, fileLimits.auditResult);
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw refuse(`${path} cannot be read: ${describeCause(cause)}`, cause);
  }
}

/** Decided when the run ended; the gate is not part of the run. */
const gateSchema = z.looseObject({
  verdict: z.looseObject({
    exitCode: z.union([z.literal(0), z.literal(3), z.literal(4), z.literal(100)]),
    failures: z.array(z.string()),
    checks: z.array(
      z.object({
        drafter: z.string(),
        name: z.enum(['failIfDrop', 'failIfAcceptedLengthBelow']),
        outcome: z.enum(['passed', 'failed', 'undecided']),
        message: z.string(),
      }),
    ),
  }),
});

/** What Mistletoe would write. */
function renderExpected(text: string, result: AuditResult): string {
  const judged = judge(result);
  const { exitCode, failures, checks } = gateSchema.safeParse(parseIfJson(text)).data?.verdict ?? judged;
  return renderResult(result, { ...judged, exitCode, failures, checks });
}

function parseIfJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function compareLines(path: string, expected: string, found: string): void {
  const [lines, others] = [expected.split('\n'), found.split('\n')];
  const index = Array.from({ length: Math.max(lines.length, others.length) }, (_, line) => line).find(
    (line) => lines[line] !== others[line],
  );
  if (index !== undefined) throw refuse(`${path}, line ${index + 1}, does not follow from the units`);
}

function refuse(fault: string, cause?: unknown): MistletoeError {
  return new MistletoeError('usage', `${fault}.`, {
    hint: 'It was changed after the run. If units.jsonl is intact, --resume writes the result and the reports again.',
    cause,
  });
}
