/**
 * The guard in front of a real server: `serve` (draft model, chains of four) behind `guard` (plain-upstream for tenants).
 * Every answer is decoded live, and every record is judged again in a replay.
 *
 *   attacks     six suffixes that the audit found, after 0, 50 and 200 benign requests
 *   speed       the attacker's answers once the measure applies, beside direct ones of the plain server
 *   benign      2,000 short answers: three prompt sets, chat, code, and other languages, two tenants each
 *   usage-only  60 streamed attacks, after 120 benign streams, on a server that reports nothing but the usage
 *
 * Options: --quick
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRandom } from '../src/core/random.js';
import { sum } from '../src/core/vector.js';
import { bundledTarget, packageRoot } from '../src/core/package-files.js';
import { configureGuard } from '../src/guard/config-file.js';
import { startGuard } from '../src/guard/guard.js';
import type { Alert, Verdict } from '../src/guard/judge/verdict.js';
import type { Observation } from '../src/guard/observation.js';
import { type Replay, replayFile } from '../src/guard/records/replay.js';
import type { MetricsLevel } from '../src/serve/request-schema.js';
import { type RunningServer, startServer } from '../src/serve/serve.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { draftLength, planAttacks, planBenign } from './guard-traces.js';
import { promptFolder } from './prompt-sets.js';
import { median, printNote, printTable } from './stopwatch.js';

const isQuick = process.argv.includes('--quick');
const size = isQuick
  ? { before: [0, 50], pairs: 12, benign: 240, usageOnly: 60 }
  : { before: [0, 50, 200], pairs: 60, benign: 2000, usageOnly: 60 };
const attackTokens = 44;
/** One suffix leaves 1.1 tokens per step, which is certainly below break-even only after more steps. */
const usageOnlyTokens = 64;
const benignTokens = 40;
const attackRequests = 12;
const inFlight = 8;

interface Question {
  readonly text: string;
  readonly tenant: string;
}

interface Judged {
  readonly record: Observation;
  readonly verdict: Verdict;
}

interface Finished {
  readonly judged: readonly Judged[];
  readonly replay: Replay;
  /** Records whose verdict, numbers or reason are others in the replay. */
  readonly different: number;
}

const benignPlans = (await planBenign(0)).filter(({ set }) => set !== 'bundled');
const attacks = planAttacks(benignPlans, 'sps').slice(0, 6);
const kinds = await loadKinds();
const random = createRandom(1, 'guard-live');

async function loadKinds(): Promise<ReadonlyMap<string, readonly string[]>> {
  const training = await loadPrompts(join(promptFolder, 'train.jsonl'));
  const ofCategory = (pattern: RegExp): readonly string[] =>
    training.filter(({ category }) => pattern.test(category ?? '')).map(({ text }) => text);
  const languages = await loadPrompts(join(packageRoot, 'bench/other-languages.txt'));
  return new Map([
    ...['mt-bench', 'humaneval', 'gsm8k'].map(
      (name) => [name, benignPlans.filter(({ set }) => set === name).map(({ text }) => text)] as const,
    ),
    ['chat', ofCategory(/^(?:gpteacher|oasst)/)],
    ['code', ofCategory(/^(?:mbxp|exercism|pyfun)/)],
    ['other-languages', languages.map(({ text }) => text)],
  ]);
}

/** Each tenant asks for one kind of answer. */
function askBenign(index: number): Question {
  const names = [...kinds.keys()];
  const kind = names[index % names.length]!;
  const texts = kinds.get(kind)!;
  const tenant = `${kind}-${1 + (Math.floor(index / names.length) % 2)}`;
  return { tenant, text: texts[random.nextInteger(texts.length)]! };
}

interface Sending {
  readonly maxTokens: number;
  readonly temperature?: number;
  readonly isStream?: boolean;
}

/** Returns the time until the last byte. */
async function send(url: string, { text, tenant }: Question, options: Sending): Promise<number> {
  const { maxTokens, temperature = 0, isStream = false } = options;
  const startMs = performance.now();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-tenant': tenant },
    body: JSON.stringify({
      ...{ model: server.modelName, max_tokens: maxTokens, temperature, seed: random.nextInteger(1e6) },
      ...(isStream ? { stream: true, stream_options: { include_usage: true } } : {}),
      messages: [{ role: 'user', content: text }],
    }),
  });
  await response.text();
  if (!response.ok) throw new Error(`The guard answered with status ${response.status}.`);
  return performance.now() - startMs;
}

async function sendBenign(url: string, count: number, isStream = false): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count) {
      const index = next++;
      if (index % 250 === 249) process.stderr.write(`${index + 1} of ${count} benign requests\n`);
      await send(url, askBenign(index), { maxTokens: benignTokens, temperature: 0.7, isStream });
    }
  };
  await Promise.all(Array.from({ length: inFlight }, work));
}

/** Runs a guard in front of the server, closes it, and replays its records. */
async function guarded(upstream: string, use: (url: string) => Promise<void>): Promise<Finished> {
  const folder = mkdtempSync(join(tmpdir(), 'guard-live-'));
  const guard = await startGuard(
    configureGuard({
      ...{ upstream, plainUpstream: plain.url, port: 0, operator: { port: 0 } },
      ...{ records: { folder }, tenant: { from: 'header', header: 'x-tenant' } },
      mitigation: { action: 'plain-upstream' },
    }),
  );
  try {
    await use(guard.url);
  } finally {
    await guard.close();
  }
  const judged: Judged[] = [];
  let different = 0;
  const replay = await replayFile(folder, {
    measures: { action: 'plain-upstream' },
    onJudged: (record, { verdict }, recorded) => {
      judged.push({ record, verdict });
      different += Number(JSON.stringify(verdict) !== JSON.stringify(recorded));
    },
  });
  rmSync(folder, { recursive: true });
  return { judged, replay, different };
}

async function runAttacks(): Promise<void> {
  const rows = [
    [
      ...['benign before', 'attacks drafted, 32+ steps', 'called collapsed', 'accepted length'],
      ...['attacks until the measure', 'measures on benign tenants', 'records that differ in replay'],
    ],
  ];
  const times: { readonly guardMs: number; readonly plainMs: number }[] = [];
  for (const before of size.before) {
    const { judged, replay, different } = await guarded(server.url, async (url) => {
      await sendBenign(url, before);
      for (let index = 0; index < attackRequests; index++) {
        const attack = { ...attacks[index % attacks.length]!, tenant: 'attacker' };
        await send(url, attack, { maxTokens: attackTokens });
        await send(url, askBenign(index), { maxTokens: benignTokens, temperature: 0.7 });
      }
      // Every answer is the same both ways: greedy, on the same prompt.
      for (let pair = 0; before === 0 && pair < size.pairs; pair++) {
        const attack = { ...attacks[pair % attacks.length]!, tenant: 'attacker' };
        const guardMs = await send(url, attack, { maxTokens: attackTokens });
        times.push({ guardMs, plainMs: await send(plain.url, attack, { maxTokens: attackTokens }) });
      }
    });
    const applied = replay.actions.filter(({ change }) => change === 'applied');
    const first = applied.find(({ tenant }) => tenant === 'attacker');
    const own = judged.filter(({ record }) => record.tenant === 'attacker');
    const drafted = own.filter(({ record }) => (record.speculation?.steps ?? 0) >= 32);
    const lengths = drafted.map(({ verdict }) => verdict.numbers.acceptedLength ?? 0);
    rows.push([
      ...[String(before), String(drafted.length)],
      String(drafted.filter(({ verdict }) => verdict.name === 'collapsed').length),
      `${Math.min(...lengths).toFixed(2)}-${Math.max(...lengths).toFixed(2)}`,
      first === undefined
        ? 'never'
        : String(own.findIndex(({ record }) => record.id === first.requestId) + 1),
      String(applied.filter(({ tenant }) => tenant !== 'attacker').length),
      String(different),
    ]);
  }
  printTable(rows, 'Attacks');
  const inAll = sum(times.map(({ plainMs }) => plainMs)) / sum(times.map(({ guardMs }) => guardMs));
  const middle = median(times.map(({ guardMs, plainMs }) => plainMs / guardMs));
  printTable(
    [
      ['pairs', 'tokens/s over all, probes included', 'median pair'],
      [String(times.length), `${inAll.toFixed(2)}x`, `${middle.toFixed(2)}x`],
    ],
    'Attacker after the measure, relative to plain decoding',
  );
}

async function runBenign(): Promise<void> {
  const { judged, replay, different } = await guarded(server.url, (url) => sendBenign(url, size.benign));
  const rows = [
    ['kind', 'requests', 'accepted length, median', 'low', 'collapsed', 'tenant alerts', 'measures'],
  ];
  const count = (name: string, own: readonly Judged[], alerts: readonly Alert[], measures: number): void => {
    const lengths = own.map(({ verdict }) => verdict.numbers.acceptedLength ?? 1);
    const called = (verdictName: Verdict['name']): string =>
      String(own.filter(({ verdict }) => verdict.name === verdictName).length);
    rows.push([
      ...[name, String(own.length), median(lengths).toFixed(2), called('low'), called('collapsed')],
      ...[String(alerts.length), String(measures)],
    ]);
  };
  const applied = replay.actions.filter(({ change }) => change === 'applied');
  for (const kind of kinds.keys()) {
    const isOwn = (tenant: string | null): boolean => kind === tenant?.slice(0, -2);
    count(
      kind,
      judged.filter(({ record }) => isOwn(record.tenant)),
      replay.alerts.filter(({ tenant }) => isOwn(tenant)),
      applied.filter(({ tenant }) => isOwn(tenant)).length,
    );
  }
  count('all', judged, replay.alerts, applied.length);
  printTable(rows, 'Benign requests');
  const ranked = judged.filter(({ verdict }) => verdict.numbers.rank !== null).length;
  const low = judged.filter(({ verdict }) => verdict.name === 'low').length;
  printNote(
    `${((100 * low) / ranked).toFixed(2)} % of ${ranked} ranked requests are low; ${different} records differ in the replay.`,
  );
}

async function runUsageOnly(): Promise<void> {
  const { judged, different } = await guarded(silent.url, async (url) => {
    await sendBenign(url, 120, true);
    for (let index = 0; index < size.usageOnly; index++) {
      const tenant = `attacker-${index}`; // a measure would end the drafts of one tenant
      const attack = { ...attacks[index % attacks.length]!, tenant };
      await send(url, attack, { maxTokens: usageOnlyTokens, isStream: true });
    }
  });
  const attacked = judged.filter(({ record }) => record.tenant.startsWith('attacker'));
  const found = attacked.filter(({ verdict: { name } }) => name === 'collapsed' || name === 'low').length;
  const lengths = attacked.map(({ verdict }) => verdict.numbers.acceptedLength ?? 0);
  printTable(
    [
      ['streamed attacks', 'collapsed or low', 'tokens per step', 'records that differ in replay'],
      [
        ...[String(attacked.length), String(found)],
        `${Math.min(...lengths).toFixed(2)}-${Math.max(...lengths).toFixed(2)}`,
        String(different),
      ],
    ],
    'Usage only',
  );
}

const shared = { target: bundledTarget, threads: 1, port: 0 } as const;
const startDrafting = (metricsLevel: MetricsLevel): Promise<RunningServer> =>
  startServer({ ...shared, metricsLevel, drafters: { sps: 'sps' }, draft: `chain:${draftLength}` });
const server = await startDrafting('detailed');
const plain = await startServer({ ...shared, metricsLevel: 'detailed' });
const silent = await startDrafting('none');
await runAttacks();
await runUsageOnly();
await runBenign();
await Promise.all([server.close(), plain.close(), silent.close()]);
