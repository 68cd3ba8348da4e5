/** The guard's flags as commander passes them; the file or the default decides the rest. */
import type { FlagValue } from '../../guard/config-file.js';

export interface GuardFlags {
  readonly upstream?: string;
  readonly plainUpstream?: string;
  readonly scrape?: string;
  readonly engine?: string;
  readonly askForTelemetry?: true;
  readonly host?: string;
  readonly port?: number;
  readonly operatorHost?: string;
  readonly operatorPort?: number;
  readonly operatorKeyFile?: string;
  readonly tenant?: { readonly from: 'all' | 'key' } | { readonly from: 'header'; readonly header: string };
  readonly falseAlerts?: number;
  readonly action?: string;
  readonly records?: string;
  readonly logRequests?: true;
  readonly config?: string;
  readonly showConfig?: true;
  /** In seconds. */
  readonly interval?: number;
}

/** Their places in the settings. */
export function flagValues(flags: GuardFlags): FlagValue[] {
  const all: FlagValue[] = [
    { flag: '--upstream', path: ['upstream'], value: flags.upstream },
    { flag: '--plain-upstream', path: ['plainUpstream'], value: flags.plainUpstream },
    { flag: '--engine', path: ['engine'], value: flags.engine },
    { flag: '--ask-for-telemetry', path: ['askForTelemetry'], value: flags.askForTelemetry },
    { flag: '--host', path: ['host'], value: flags.host },
    { flag: '--port', path: ['port'], value: flags.port },
    { flag: '--operator-host', path: ['operator', 'host'], value: flags.operatorHost },
    { flag: '--operator-port', path: ['operator', 'port'], value: flags.operatorPort },
    { flag: '--operator-key-file', path: ['operator', 'keyFile'], value: flags.operatorKeyFile },
    { flag: '--tenant', path: ['tenant', 'from'], value: flags.tenant?.from },
    {
      flag: '--tenant',
      path: ['tenant', 'header'],
      value: flags.tenant?.from === 'header' ? flags.tenant.header : undefined,
    },
    { flag: '--false-alerts', path: ['alert', 'falseAlerts'], value: flags.falseAlerts },
    { flag: '--action', path: ['mitigation', 'action'], value: flags.action },
    { flag: '--records', path: ['records', 'folder'], value: flags.records },
    { flag: '--log-requests', path: ['log', 'requests'], value: flags.logRequests },
  ];
  return all.filter(({ value }) => value !== undefined);
}

export interface ReplayFlags {
  readonly falseAlerts?: number;
  readonly falseAlertsPerWeek?: number;
  readonly format: 'text' | 'json';
}
