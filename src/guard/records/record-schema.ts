/** A line of the record log: a request with its verdict, an alert, or an action. */
import { type ActionEvent, type Alert, type Verdict, noNumbers, verdictNames } from '../judge/verdict.js';
import { type Observation, observationSchema } from '../observation.js';

export type LogEntry =
  | { readonly kind: 'request'; readonly record: Observation; readonly verdict: Verdict }
  | { readonly kind: 'alert'; readonly alert: Alert }
  | { readonly kind: 'action'; readonly action: ActionEvent };

/** A line is a request, another entry of a log, or unusable. */
export type ReadLine =
  | { readonly record: Observation; readonly verdict: Verdict | undefined }
  | { readonly skipped: true }
  | { readonly fault: string };

/** A line of a log, or an observation without one. */
export function readRecordLine(value: unknown): ReadLine {
  const { kind, record, verdict } = (value ?? {}) as Partial<Record<string, unknown>>;
  if (kind === 'alert' || kind === 'alarm' || kind === 'action') return { skipped: true };
  const parsed = observationSchema.safeParse(kind === 'request' ? record : value);
  if (parsed.success) {
    const recorded = verdict as Verdict | null | undefined;
    const isKnown = verdictNames.some((name) => name === recorded?.name);
    return { record: parsed.data, verdict: isKnown ? recorded! : undefined };
  }
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? 'the line' : issue.path.join('.');
  return { fault: `${place}: ${issue?.message ?? 'unusable'}` };
}

/** A line of a log, or undefined. The guard wrote it, but a disk may damage it, so its kind is checked. */
export function parseEntry(line: string): LogEntry | undefined {
  try {
    const value = JSON.parse(line) as Partial<Record<string, unknown>> | null;
    const { kind, verdict } = value ?? {};
    if (kind !== 'request' && kind !== 'alert' && kind !== 'action') return undefined;
    const content = value?.[kind === 'request' ? 'record' : kind];
    if (typeof content !== 'object' || content === null) return undefined;
    if (kind !== 'request' || typeof verdict !== 'string') return value as LogEntry;
    // Version 0.2 wrote a name only, of its own.
    const name =
      verdict === 'low' ? 'low' : verdict === 'usual' || verdict === 'high' ? 'normal' : 'unreadable';
    const reason = `An earlier version called this request ${verdict}.`;
    return { kind, record: content as Observation, verdict: { name, numbers: noNumbers, reason } };
  } catch {
    return undefined;
  }
}
