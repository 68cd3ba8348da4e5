/** The options of the guard as commander hands them over; what is not given is up to the file or its default. */
import type { FlagValue } from '../../guard/config-file.js';

export interface GuardFlags {
  readonly upstream?: string;
  readonly plainUpstream?: string;
  readonly scrape?: string;
  readonly engine?: string;
  readonly askForTelemetry?: true;
  readonly host?: string;
  readonly port?: number;
  readonly operatorKeyFile?: string;
  readonly tenant?: { readonly from: 'all' | 'key' } | { readonly from: 'header'; readonly header: string };
  readonly falseAlarms?: number;
  readonly action?: string;
  readonly records?: string;
  readonly logRequests?: true;
  readonly config?: string;
  readonly showConfig?: true;
  /** In seconds. */
  readonly interval?: number;
}

/** Where each stands in the configuration. */
export function flagValues(flags: GuardFlags): FlagValue[] {
  const all: FlagValue[] = [
    { flag: '--upstream', path: ['upstream'], value: flags.upstream },
    { flag: '--plain-upstream', path: ['plainUpstream'], value: flags.plainUpstream },
    { flag: '--engine', path: ['engine'], value: flags.engine },
    { flag: '--ask-for-telemetry', path: ['askForTelemetry'], value: flags.askForTelemetry },
    { flag: '--host', path: ['host'], value: flags.host },
    { flag: '--port', path: ['port'], value: flags.port },
    { flag: '--operator-key-file', path: ['operator', 'keyFile'], value: flags.operatorKeyFile },
    { flag: '--tenant', path: ['tenant', 'from'], value: flags.tenant?.from },
    {
      flag: '--tenant',
      path: ['tenant', 'header'],
      value: flags.tenant?.from === 'header' ? flags.tenant.header : undefined,
    },
    { flag: '--false-alarms', path: ['alarm', 'falseAlarms'], value: flags.falseAlarms },
    { flag: '--action', path: ['mitigation', 'action'], value: flags.action },
    { flag: '--records', path: ['records', 'folder'], value: flags.records },
    { flag: '--log-requests', path: ['log', 'requests'], value: flags.logRequests },
  ];
  return all.filter(({ value }) => value !== undefined);
}

export interface ReplayFlags {
  readonly falseAlarms?: number;
  readonly falseAlarmsPerWeek?: number;
  readonly format: 'text' | 'json';
}
