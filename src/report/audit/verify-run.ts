/**
 * Checks that a run is unchanged since it was written: its units by their chain of hashes, its result by recomputing it
 * from them. Times and the gate are not part of the units and cannot be checked.
 */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { type AuditRequest, requestSchema } from '../../audit/audit-request.js';
import { readRequest } from '../../runs/resumed-run.js';
import { readVersion } from '../../runs/identity.js';
import { rebuildResult } from '../../audit/run-audit.js';
import type { AuditResult } from '../../audit/result.js';
import { type UnitSource, verifyRun } from '../../runs/run-units.js';
import { isMissing, readBoundedFile } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { fileLimits } from '../../core/limits.js';
import { renderResult, renderSuffixes } from './write-reports.js';
import { type Verdict, judge } from './verdict.js';

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

/** Throws an error that names the changed file and the line or entry. */
export async function verifyFinishedRun(folder: string): Promise<RunVerification> {
  const run = verifyRun(folder);
  const { units, steps, sha256 } = run;
  const request = readRequest(folder, requestSchema, 'audit');
  const checked = { folder, version: request.version, units, steps, sha256 };
  const path = join(folder, 'result.json');
  const text = await readIfThere(path);
  if (text === undefined) return { ...checked, result: 'unfinished' };
  if (request.version !== readVersion()) return { ...checked, result: 'other-version' };
  const result = compareResult(path, text, request, run);
  await compareSuffixes(join(folder, 'suffixes.jsonl'), result);
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
    exitCode: z.union([z.literal(0), z.literal(3), z.literal(100)]),
    failures: z.array(z.string()),
    checks: z.array(
      z.object({
        drafter: z.string(),
        name: z.enum(['failIfDrop', 'failIfAcceptedLengthBelow']),
        passed: z.boolean(),
        message: z.string(),
      }),
    ),
  }),
});

function compareResult(path: string, text: string, request: AuditRequest, units: UnitSource): AuditResult {
  const rebuilt = rebuildResult(request, units);
  const value = parseJson(path, text);
  const gate = gateSchema.safeParse(value).data?.verdict;
  const { exitCode, failures, checks } = gate ?? judge(rebuilt);
  const verdict: Verdict = { ...judge(rebuilt), exitCode, failures, checks };
  const expected = renderResult(rebuilt, verdict);
  if (expected === text) return rebuilt;
  const place = findDifference(JSON.parse(expected), value);
  throw refuse(
    place === undefined
      ? `${path} is not written as Mistletoe writes it`
      : `${path} does not follow from the units: ${place} differs`,
  );
}

function parseJson(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw refuse(`${path} is not JSON: ${describeCause(cause)}`, cause);
  }
}

/** Path of the first value that differs, as `drafters.0.summary`. */
function findDifference(expected: unknown, found: unknown, place = ''): string | undefined {
  if (isDeepStrictEqual(expected, found)) return undefined;
  if (!isTree(expected) || !isTree(found) || Array.isArray(expected) !== Array.isArray(found)) return place;
  const keys = [...new Set([...Object.keys(expected), ...Object.keys(found)])];
  const key = keys.find(
    (name) =>
      Object.hasOwn(expected, name) !== Object.hasOwn(found, name) ||
      !isDeepStrictEqual(expected[name], found[name]),
  )!;
  return findDifference(expected[key], found[key], place === '' ? key : `${place}.${key}`) ?? place;
}

function isTree(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

async function compareSuffixes(path: string, result: AuditResult): Promise<void> {
  const lines = renderSuffixes(result).split('\n');
  const found = (await readIfThere(path))?.split('\n');
  if (found === undefined) throw refuse(`${path} is missing, although the run has ended`);
  const index = Array.from({ length: Math.max(lines.length, found.length) }, (_, line) => line).find(
    (line) => lines[line] !== found[line],
  );
  if (index !== undefined) throw refuse(`${path}, line ${index + 1}, does not follow from the units`);
}

function refuse(fault: string, cause?: unknown): MistletoeError {
  return new MistletoeError('usage', `${fault}.`, {
    hint: 'It was changed after the run. If units.jsonl is intact, --resume writes the result and the reports again.',
    cause,
  });
}
