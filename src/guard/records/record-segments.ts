/** The files of a log: names, lines, and removal of old ones. */
import { open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describeCause } from '../../core/errors.js';
import { isFolder, isMissing } from '../../core/files.js';
import { parseJsonText } from '../../core/json-text.js';
import type { GuardConfiguration } from '../guard-config.js';
import { type ActionEvent, type Alert, type Verdict, verdictNames } from '../judge/verdict.js';
import { type Observation, observationSchema } from '../observation.js';

export type LogEntry =
  | { readonly kind: 'request'; readonly record: Observation; readonly verdict: Verdict }
  | { readonly kind: 'alert'; readonly alert: Alert }
  | { readonly kind: 'action'; readonly action: ActionEvent };

/** A line of a log, or an observation without one; undefined for entries that are no requests. */
export function readRecordLine(text: string) {
  let value: unknown;
  try {
    value = parseJsonText(text);
  } catch (cause) {
    return { fault: describeCause(cause) };
  }
  const { kind, record, verdict } = (value ?? {}) as Partial<Record<string, unknown>>;
  if (kind === 'alert' || kind === 'alarm' || kind === 'action') return undefined;
  const parsed = observationSchema.safeParse(kind === 'request' ? record : value);
  if (parsed.success) {
    const recorded = verdict as Verdict | null | undefined;
    const isKnown = verdictNames.some((name) => name === recorded?.name);
    return { record: parsed.data as Observation, verdict: isKnown ? recorded! : undefined };
  }
  const [issue] = parsed.error.issues;
  return { fault: `${issue?.path.join('.') || 'the line'}: ${issue?.message ?? 'unusable'}` };
}

const nameForm = /^records-(\d{13})-(\d+)-(\d+)\.jsonl$/;

/** Names sort by time. */
export function segmentName(begunMs: number, processId: number, count: number): string {
  return `records-${String(begunMs).padStart(13, '0')}-${processId}-${count}.jsonl`;
}

/** Oldest first; other files of the folder are ignored. */
export async function listSegments(folder: string) {
  const orNothing = (cause: unknown): undefined => {
    if (!isMissing(cause)) throw cause; // another process may have removed it
  };
  const names = (await readdir(folder).catch(orNothing)) ?? [];
  const found = names.map(async (name) => {
    const [, begun] = nameForm.exec(name) ?? [];
    const path = join(folder, name);
    const file = begun === undefined ? undefined : await stat(path).catch(orNothing);
    return file && { name, path, begunMs: Number(begun), bytes: file.size, changedMs: file.mtimeMs };
  });
  const segments = (await Promise.all(found)).filter((segment) => segment !== undefined);
  return segments.sort((one, other) => one.begunMs - other.begunMs || (one.name < other.name ? -1 : 1));
}

/** The lines of a file, or of all segments of a folder, oldest first. */
export async function* readLines(path: string): AsyncGenerator<string> {
  const files = isFolder(path) ? (await listSegments(path)).map((segment) => segment.path) : [path];
  for (const file of files) yield* (await open(file)).readLines();
}

/** Removes the oldest until the rest and the next segment fit. */
export async function removeOldSegments(
  folder: string,
  { retainSize, retainAge, segmentSize }: Omit<GuardConfiguration['records'], 'folder' | 'segmentAge'>,
  nowMs: number,
): Promise<void> {
  const segments = await listSegments(folder);
  let total = segments.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes, changedMs } of segments) {
    const isOld = retainAge > 0 && nowMs - changedMs > retainAge;
    if (!isOld && total + segmentSize <= retainSize) break;
    await rm(path, { force: true });
    total -= bytes;
  }
}
