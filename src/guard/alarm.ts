/** What the guard says when something is wrong, and what it does about it. */
import type { Stream } from './request-record.js';

/** Whose trouble it is: one request's, a tenant's over several requests, or that of all who use a model. */
export type AlarmScope = 'request' | 'tenant' | 'everyone';

/**
 * `collapse`: drafts fail where they should not. `drafter-down`: they fail for everybody at once, which is a broken
 * deployment rather than an attack. `repetition`: drafts succeed more than they should, as in a loop. `hard-text`: low, but
 * no lower than this kind of request is known to be: another language, creative text, a long context.
 */
export type AlarmCause = 'collapse' | 'drafter-down' | 'repetition' | 'hard-text';

export interface Alarm extends Stream {
  readonly id: string;
  readonly atMs: number;
  readonly scope: AlarmScope;
  readonly cause: AlarmCause;
  readonly tenant: string | null;
  readonly requestId: string | null;
  /** Mean accepted length that was seen, over so many steps. */
  readonly seen: number;
  readonly steps: number;
  /** What the baseline led to expect: middle and band of requests of this kind. */
  readonly expected: { readonly middle: number; readonly low: number; readonly high: number };
  /**
   * Evidence against the baseline, as a factor. Where it is that of the strict test, 1 / eValue bounds the chance of a false
   * alarm however often one looks; where it is that of the test fitted to the traffic, the text gives its rate instead.
   */
  readonly eValue: number;
  /** One sentence: what was seen, what was expected, how sure. */
  readonly text: string;
}

export const actionNames = [
  'observe',
  'tag',
  'plain-upstream',
  'shorter-drafts',
  'rate-limit',
  'switch-drafter',
] as const;
export type ActionName = (typeof actionNames)[number];

/** A measure that was taken or lifted. */
export interface ActionEvent {
  readonly atMs: number;
  readonly action: ActionName;
  readonly change: 'taken' | 'lifted' | 'probed';
  readonly tenant: string | null;
  readonly model: string | null;
  readonly requestId: string | null;
  readonly alarmId: string | null;
  readonly text: string;
}
