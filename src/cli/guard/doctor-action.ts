import { MistletoeError } from '../../core/errors.js';
import type { Drafting, Telemetry } from '../../guard/engines/adapter.js';
import type { EngineReport } from '../../guard/engines/doctor.js';
import { examineEngine } from '../../guard/engines/doctor.js';
import { adapterOf } from '../../guard/engines/engine-list.js';
import { asOneLine, colorsFor } from '../terminal.js';
import { exitCodes } from '../failure.js';
import type { Colors, Terminal } from '../terminal.js';

export interface DoctorFlags {
  readonly keyEnv?: string;
  /** In seconds. */
  readonly timeout: number;
  readonly format: 'text' | 'json';
}

export async function runDoctor(url: string, flags: DoctorFlags, terminal: Terminal): Promise<number> {
  const { stdout, closed } = terminal;
  const key = readKey(flags.keyEnv, terminal);
  const report = await examineEngine(url, { key, timeoutMs: 1000 * flags.timeout, signal: closed });
  if (flags.format === 'json') stdout.writeData(`${JSON.stringify(report, undefined, 2)}\n`);
  else stdout.write(formatReport(report, colorsFor(stdout, terminal)));
  return report.engine === 'unknown' ? exitCodes.incomplete : exitCodes.success;
}

function readKey(name: string | undefined, { environment }: Terminal): string | undefined {
  if (name === undefined) return undefined;
  const key = environment[name]?.trim();
  if (key !== undefined && /^[\x21-\x7e]+$/.test(key)) return key;
  throw new MistletoeError('usage', `The environment variable ${name} contains no key.`, {
    hint: `Set it to the key alone, as in ${name}=sk-... mistletoe doctor URL --key-env ${name}.`,
  });
}

function formatReport(report: EngineReport, colors: Colors): string {
  const { url, engine, version, models, drafting, perRequest, aggregate, acceptedLength, notes } = report;
  const title = adapterOf(engine)?.title ?? 'unknown';
  const facts: (readonly [string, string])[] = [
    ['server', url],
    ['engine', version === null ? title : `${title} ${version}`],
    ['model', models.length === 0 ? 'unknown' : models.join(', ')],
    ['drafting', describeDrafting(drafting)],
    [
      'tokens per pass',
      acceptedLength === null ? 'unknown' : `${acceptedLength.value.toFixed(2)} over ${acceptedLength.over}`,
    ],
    ['per request', describeTelemetry(perRequest)],
    ['metrics', describeTelemetry(aggregate)],
  ];
  const width = Math.max(...facts.map(([label]) => label.length)) + 2;
  const lines = facts.map(([label, value]) => colors.dim(label.padEnd(width)) + asOneLine(value));
  const remedies = [perRequest, aggregate].flatMap(({ remedy }) =>
    remedy === null ? [] : [`${colors.cyan('add:')} ${asOneLine(remedy)}`],
  );
  const noteLines = notes.map((note) => `${colors.yellow('note:')} ${asOneLine(note)}`);
  const rest = [...remedies, ...noteLines];
  return `${[...lines, ...(rest.length === 0 ? [] : ['', ...rest])].join('\n')}\n`;
}

function describeDrafting({ isOn, method, drafter, draftLength, isTree }: Drafting): string {
  if (isOn === false) return 'off';
  const facts = [
    ...(method === null ? [] : [method]),
    ...(drafter === null ? [] : [`drafter ${drafter}`]),
    ...(draftLength === null ? [] : [`up to ${draftLength} tokens per step`]),
    ...(isTree === null ? [] : [isTree ? 'trees' : 'chains']),
  ];
  const state = isOn === null ? 'unknown' : 'on';
  return facts.length === 0 ? state : `${state}: ${facts.join(', ')}`;
}

const stateWords: Readonly<Record<Telemetry['state'], string>> = {
  on: 'reported',
  asked: 'reported when the request asks',
  off: 'not reported',
  never: 'not supported by this engine',
  unseen: 'unknown without a generation',
};

const describeTelemetry = ({ state, text }: Telemetry): string => `${stateWords[state]}: ${text}`;
