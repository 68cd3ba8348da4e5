/** A rehearsal on an engine of the operator's, who starts it anew meanwhile. */
import { MistletoeError } from '../../core/errors.js';
import { examineEngine } from '../../guard/doctor.js';
import { describeSwitch, rehearseUpstream } from '../../guard/rehearsal-upstream.js';
import { exitCodes } from '../failure.js';
import type { RehearseFlags } from './rehearse-flags.js';
import type { Terminal } from '../terminal.js';

interface HostEnvironment {
  readonly terminal: Terminal;
  readonly texts: readonly string[];
  readonly signal: AbortSignal;
}

export async function runUpstream(
  url: string,
  flags: RehearseFlags,
  { terminal, texts, signal }: HostEnvironment,
): Promise<number> {
  const { stdout, environment } = terminal;
  const key = flags.keyEnv === undefined ? undefined : environment[flags.keyEnv];
  if (flags.keyEnv !== undefined && (key === undefined || key === ''))
    throw new MistletoeError('usage', `The environment variable ${flags.keyEnv} holds no key.`, {
      hint: 'Set it, or leave --key-env out.',
    });
  const report = await examineEngine(url, { key, signal });
  const [model] = report.models;
  const advice = describeSwitch(report.engine, flags.acceptedLength);
  if (model === undefined || advice === undefined) {
    throw new MistletoeError(
      'usage',
      `${report.url} is ${report.engine === 'unknown' ? 'no engine that is known here' : report.engine}, which has no switch for pretending an accepted length${model === undefined ? ', or names no model' : ''}.`,
      { hint: 'vLLM, SGLang and TensorRT-LLM have one. Without --upstream the rehearsal runs here.' },
    );
  }
  stdout.write(
    `${report.engine} at ${report.url}, ${model}. It must serve nobody else: while it pretends, its answers are nonsense.\n` +
      `First ${flags.requests} requests as usual.\n`,
  );
  const speeds: Record<'usual' | 'waiting', number[]> = { usual: [], waiting: [] };
  let silence: string | undefined;
  const events = rehearseUpstream({
    ...{ url: report.url, model, prompts: texts, key, signal },
    metricsPath: report.engine === 'tensorrt-llm' ? '/prometheus/metrics' : '/metrics',
    ...{ newTokens: flags.maxNewTokens, usualRequests: flags.requests },
    ...(flags.falseAlarms === undefined ? {} : { falseAlarms: flags.falseAlarms }),
  });
  for await (const event of events) {
    if (event.kind === 'silent') {
      if (event.reason !== silence) stdout.write(`Waits: ${event.reason}.\n`);
      silence = event.reason;
      continue;
    }
    silence = undefined;
    const { phase, count, meanAcceptedLength, tokensPerSecond, alarms } = event;
    if (tokensPerSecond !== null) speeds[phase].push(tokensPerSecond);
    if (phase === 'waiting' || count % reportEvery === 0) {
      const speed = tokensPerSecond === null ? '' : `, ${tokensPerSecond.toFixed(0)} tokens/s`;
      stdout.write(`Request ${count}: accepted length ${meanAcceptedLength.toFixed(2)}${speed}\n`);
    }
    if (phase === 'usual' && count === flags.requests)
      stdout.write(
        `\nNow start it anew with\n  ${advice}\nThis waits until the alarm rings; Ctrl-C ends it.\n`,
      );
    if (phase === 'waiting' && alarms.length > 0) {
      stdout.write(`\nThe alarm rang: ${alarms[0]!.text}\n${comparison(speeds.usual, tokensPerSecond)}`);
      return exitCodes.success;
    }
  }
  return exitCodes.interrupted;
}

const reportEvery = 20;

function comparison(usual: readonly number[], after: number | null): string {
  if (usual.length === 0 || after === null) return '';
  const before = usual.reduce((sum, speed) => sum + speed, 0) / usual.length;
  return `${before.toFixed(0)} tokens/s as usual, ${after.toFixed(0)} in the request that rang.\n`;
}
