import { MistletoeError } from '../../core/errors.js';
import { decimal, text } from '../../core/settings.js';
import type { Drafting, Telemetry } from '../../guard/engines/adapter.js';
import { type EngineReport, examineEngine } from '../../guard/engines/doctor.js';
import { adapterOf } from '../../guard/engines/engine-list.js';
import { defineCommand } from '../command.js';
import { formatFlag } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { flag } from '../flags.js';
import { type Fact, formatFacts, printResult } from '../long-runs.js';
import { type Colors, type Terminal, asOneLine } from '../terminal.js';

const flags = {
  keyEnv: flag('environment variable that holds the key of the server', text, 'name'),
  timeout: flag('max wait for one response', decimal({ min: 0.1, max: 600 }), 'seconds', { default: 5 }),
  ...formatFlag,
};

export const doctor = defineCommand({
  name: 'doctor',
  description:
    'Examines a running server: engine and version, how it drafts, which acceptance telemetry is on, and the flag to add where it is not. Knows vLLM, SGLang, TensorRT-LLM, llama.cpp, LMDeploy, TGI and mistletoe serve. It only reads and generates nothing.',
  arguments: [['<url>', 'address of the server, as localhost:8000']],
  flags,
  examples: [
    ['mistletoe doctor localhost:8000', ''],
    ['mistletoe doctor https://llm.example.com/v1 --key-env LLM_KEY', 'with a key'],
    ['mistletoe doctor http://localhost:30000 --format json', 'for programs'],
  ],
  notes:
    'Exit code 0 if the engine is known, 1 if nothing responds, 2 if the address or the key is wrong, 3 if the server is not an engine that doctor knows.',
  async run({ keyEnv, timeout, format }, { args: [given = ''], terminal }) {
    const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(given) ? given : `http://${given}`;
    const key = readKey(keyEnv, terminal);
    const report = await examineEngine(url, { key, timeoutMs: 1000 * timeout, signal: terminal.closed });
    printResult(format, terminal, { json: () => report, text: (colors) => formatReport(report, colors) });
    return report.engine === 'unknown' ? exitCodes.incomplete : exitCodes.success;
  },
});

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
  const facts: readonly Fact[] = [
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
  const remedies = [perRequest, aggregate].flatMap(({ remedy }) =>
    remedy === null ? [] : [`${colors.cyan('add:')} ${asOneLine(remedy)}`],
  );
  const rest = [...remedies, ...notes.map((note) => `${colors.yellow('note:')} ${asOneLine(note)}`)];
  const lines = [...formatFacts(facts, colors), ...(rest.length === 0 ? [] : ['', ...rest])];
  return `${lines.join('\n')}\n`;
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
