/** What a line of the log says. */
import type { ActionEvent, Alarm } from './alarm.js';
import type { Verdict } from './page-state.js';
import type { RequestRecord } from './request-record.js';

export type LogEntry =
  | { readonly kind: 'request'; readonly record: RequestRecord; readonly verdict: Verdict }
  | { readonly kind: 'alarm'; readonly alarm: Alarm }
  | { readonly kind: 'action'; readonly action: ActionEvent };
