/**
 * What measures save: tokens per second of attacked and of benign requests, one at a time, on the engine that `mistletoe serve` has. For
 * each drafter the same prompts with and without the suffix that was made for it, decoded by turns
 *
 *   plain               without drafts
 *   no guard            chains of four, whatever they bring
 *   within the request  as `serve --guarded` does it: another drafter, ngram, plain, as the request's own test and account decide
 *   spec-off            plain where the monitor rang for this request (as for a tenant whose alarm has rung), else drafted
 *   one-way gate        plain for everybody, once the gate has closed
 *
 * The last two follow from the first two. Floors are learnt from benign requests before anything is measured, as a server learns them. Then
 * the bound is held against every request, by the quicker of two rounds, since a machine that does something else meanwhile breaks
 * any bound; and it is told which rungs were taken. The rows are those of docs/guard-results.md.
 *
 * Run: npm run bench:guard-recovery [-- PROMPTS [DRAFTER,... [REQUESTS_TO_LEARN_FROM [TRAINING_QUESTIONS]]]]
 */
import type { BundledDrafter } from '../src/decode/bundled-models.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import type { EngineWorker, WorkerGenerateOptions } from '../src/decode/engine/engine-worker.js';
import { createEngineWorker } from '../src/decode/engine/engine-worker.js';
import type { DrafterSwitch } from '../src/decode/policies/drafter-switches.js';
import { isSpeculative } from '../src/decode/speculative-text.js';
import { describeMachine } from '../src/measure/machine.js';
import { calibrate, score } from './guard-scores.js';
import type { TracePlan } from './guard-traces.js';
import { draftLength, newTokens, planAttacks, planBenign, traceAll } from './guard-traces.js';
import { printTable } from './stopwatch.js';

const [count = '24', chosen = 'sps,eagle,eagle3', learning = '60', training = '300'] = process.argv.slice(2);
const rounds = 2;
const slowdown = 0.05;
/** Plain steps that a request may cost on top, as the guarded policy has it unless told otherwise. */
const grant = 8;
/** What reading the prompt may cost a drafter that takes over, and what one step may, in plain steps. */
const takeover = 8;
const dearest = 3;

const ways = ['plain', 'no guard', 'within the request'] as const;
type Way = (typeof ways)[number];

interface Measured {
  readonly tokens: number; // behind the first
  /** Of all rounds. */
  readonly ms: number[];
  readonly switches: readonly DrafterSwitch[];
}
/** [way][request] */
type Measures = ReadonlyMap<Way, ReadonlyMap<string, Measured>>;

const { processor, architecture, nodeVersion } = describeMachine();
console.log(
  `${processor} (${architecture}), Node ${nodeVersion}, 2 threads, ${newTokens} new tokens, greedy, chains of ${draftLength}\n`,
);
const speeds: string[][] = [
  ['drafter', 'requests', 'plain', 'no guard', 'spec-off', 'within the request', 'one-way gate'],
];
const bounds: string[][] = [
  [
    ...['drafter', 'requests', 'most slower than plain', 'stated there', 'requests above what is stated'],
    ...['the same of plain against plain', 'all together', 'answers as plain'],
  ],
];
const changes: string[][] = [
  ['drafter', 'requests', 'left it', 'on evidence', 'by the account', 'middle step', 'went on with'],
];
const benign = await planBenign(Number(training));
for (const name of chosen.split(',') as BundledDrafter[]) {
  try {
    await measureDrafter(name);
  } catch (cause) {
    console.error(`${name}:`, cause);
  }
}
console.log('Tokens per second\n');
printTable(speeds);
console.log(
  `\nThe bound: ${percent(slowdown)} and ${grant} plain steps slower than plain decoding, what the dearest step costs, and what reading the prompt costs a drafter that takes over\n`,
);
printTable(bounds);
console.log('\nWhich rungs were taken\n');
printTable(changes);

async function measureDrafter(name: BundledDrafter): Promise<void> {
  const attackPlans = planAttacks(benign, name);
  const traces = await traceAll(name, [...benign, ...attackPlans]);
  const calibrated = calibrate(traces.filter(({ half }) => half === 'calibration'));
  const rang = new Set(
    score(traces, calibrated).flatMap(({ trace, rangAt }) => (rangAt === undefined ? [] : [trace.id])),
  );
  const other = name === 'sps' ? 'eagle3' : 'sps';
  const worker = await createEngineWorker({
    ...{ target: bundledTarget, drafters: { [name]: name, [other]: other }, threads: 2, concurrency: 1 },
    guarding: { slowdown },
  });
  const usual = benign.filter(({ half }) => half === 'calibration').slice(0, Number(learning));
  for (const { text } of usual) await worker.generate(text, optionsOf('within the request', name));
  // Spread over the sets.
  const spacing = Math.max(1, Math.floor(attackPlans.length / Number(count)));
  const attacked = attackPlans.filter((_, index) => index % spacing === 0).slice(0, Number(count));
  const clean = attacked.map(({ prompt }) => benign.find(({ id }) => id === prompt)!);
  for (const [kind, plans] of [
    ['attacked', attacked],
    ['benign', clean],
  ] as const) {
    const { measures, areEqual } = await measure(worker, name, plans);
    report(name, kind, plans, { measures, areEqual, rang });
  }
  await worker.close();
}

function optionsOf(way: Way, drafter: string): WorkerGenerateOptions {
  const shared = { maxNewTokens: newTokens, sampling: { temperature: 0 } };
  if (way === 'plain') return shared;
  return { ...shared, drafter, policy: `chain:${draftLength}`, guarded: way === 'within the request' };
}

/** Ways take turns with each request, so that a slow moment of the machine hits all of them. */
async function measure(
  worker: EngineWorker,
  drafter: string,
  plans: readonly TracePlan[],
): Promise<{ readonly measures: Measures; readonly areEqual: boolean }> {
  const measures = new Map(ways.map((way) => [way, new Map<string, Measured>()]));
  let areEqual = true;
  for (const [index, { id, text }] of plans.entries()) {
    const warmups = index === 0 ? 1 : 0;
    for (let round = -warmups; round < rounds; round++) {
      let answer: string | undefined;
      for (const way of ways) {
        const generation = await worker.generate(text, optionsOf(way, drafter));
        answer ??= generation.tokenIds.join();
        areEqual &&= answer === generation.tokenIds.join();
        if (round < 0) continue;
        const ms = [...(measures.get(way)!.get(id)?.ms ?? []), generation.decodeMs];
        const switches = isSpeculative(generation) ? (generation.guarding?.switches ?? []) : [];
        measures.get(way)!.set(id, { tokens: generation.tokenIds.length - 1, ms, switches });
      }
    }
  }
  return { measures, areEqual };
}

interface Results {
  readonly measures: Measures;
  readonly areEqual: boolean;
  /** Requests for which the monitor rings when they are drafted. */
  readonly rang: ReadonlySet<string>;
}

function report(
  name: string,
  kind: string,
  plans: readonly TracePlan[],
  { measures, areEqual, rang }: Results,
): void {
  const all = (way: Way): readonly Measured[] => plans.map(({ id }) => measures.get(way)!.get(id)!);
  const routed = plans.map(({ id }) => measures.get(rang.has(id) ? 'plain' : 'no guard')!.get(id)!);
  speeds.push([
    ...[name, kind, rateOf(all('plain')), rateOf(all('no guard')), rateOf(routed)],
    ...[rateOf(all('within the request')), rateOf(all('plain'))],
  ]);
  const slower = plans.map(({ id }) => {
    const plain = measures.get('plain')!.get(id)!;
    const guarded = measures.get('within the request')!.get(id)!;
    const by = Math.min(...guarded.ms) / Math.min(...plain.ms) - 1;
    const stated = slowdown + (grant + takeover + dearest) / Math.max(1, plain.tokens);
    // Two runs of the very same: what is above the bound here is the machine's doing.
    return { by, stated, again: plain.ms[1]! / plain.ms[0]! - 1 };
  });
  const worst = slower.reduce((most, each) => (each.by - each.stated > most.by - most.stated ? each : most));
  const total = (way: Way): number => all(way).reduce((sum, { ms }) => sum + Math.min(...ms), 0);
  bounds.push([
    ...[name, kind, percent(worst.by), percent(worst.stated)],
    `${slower.filter(({ by, stated }) => by > stated).length} of ${slower.length}`,
    `${slower.filter(({ again, stated }) => again > stated).length} of ${slower.length}`,
    ...[percent(total('within the request') / total('plain') - 1), areEqual ? 'all' : 'not all'],
  ]);
  const first = all('within the request').flatMap(({ switches }) => switches.slice(0, 1));
  const of = (reason: DrafterSwitch['reason']): string =>
    String(first.filter((change) => change.reason === reason).length);
  const steps = first.map(({ step }) => step).sort((left, right) => left - right);
  const next = [...new Set(first.map(({ to }) => to ?? 'plain'))].join(', ');
  changes.push([
    ...[name, kind, `${first.length} of ${plans.length}`, of('evidence'), of('account')],
    ...[steps.length === 0 ? '-' : String(steps[Math.floor(steps.length / 2)]), next === '' ? '-' : next],
  ]);
}

function rateOf(measured: readonly Measured[]): string {
  const tokens = measured.reduce((sum, each) => sum + each.tokens * each.ms.length, 0);
  const ms = measured.reduce((sum, each) => sum + each.ms.reduce((total, one) => total + one, 0), 0);
  return ((1000 * tokens) / ms).toFixed(0);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}
