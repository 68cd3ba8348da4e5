/**
 * What the guard saves: tokens per second of attacked and of benign requests on this engine, one request at a time. For each
 * drafter the same prompts with and without the suffix that was made for it, decoded by turns
 *
 *   plain               without drafts
 *   no guard            chains of four, whatever they bring
 *   spec-off            plain where the monitor rang for this request (as for a tenant whose alarm has rung), else drafted
 *   within the request  the guarded policy: chain:4, chain:1, plain, as its test and its account decide
 *   rotation            chains of another drafter, which the suffix was not made for
 *   one-way gate        plain for everybody, once the gate has closed
 *
 * Then the bound of the guarded policy is held against every request, and the accepted length of every suffix with every drafter is
 * shown. Steps are kept under out/guard-traces and shared with bench:guard-detection.
 * Run: npm run bench:guard-recovery [-- PROMPTS [DRAFTER,... [TRAINING_QUESTIONS]]]
 */
import type { BundledDrafter } from '../src/decode/bundled-drafters.js';
import { bundledDrafterFolder, bundledDrafters } from '../src/decode/bundled-drafters.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { createGuardedPolicy } from '../src/decode/guarded-policy.js';
import type { Generation, GenerationRequest } from '../src/decode/plain.js';
import { decodePlain } from '../src/decode/plain.js';
import { always, decodeSpeculative } from '../src/decode/speculative.js';
import { openTarget, requestFor } from '../src/decode/target.js';
import type { Drafter } from '../src/draft/drafter.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { describeMachine } from '../src/measure/machine.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { calibrate, hypothesisOf, meanLengthOf, score } from './guard-scores.js';
import type { Trace, TracePlan } from './guard-traces.js';
import { draftLength, newTokens, planAttacks, planBenign, traceAll } from './guard-traces.js';
import { printTable } from './stopwatch.js';

const [count = '6', chosen = bundledDrafters.join(), training = '300'] = process.argv.slice(2);
const rounds = 2;
const slowdown = 0.05;
const grant = 8;
const chain = (length: number) => ({ kind: 'chain', length }) as const;
const { processor, architecture, nodeVersion } = describeMachine();
console.log(
  `${processor} (${architecture}), Node ${nodeVersion}, 2 threads, ${newTokens} new tokens, greedy\n`,
);

const runtime = createOnnxRuntime({ threads: 2 });
const target = await openTarget(bundledTarget, { runtime });
const { model, tokenizer } = target;
const loaded = new Map<BundledDrafter, Drafter>();
async function load(name: BundledDrafter): Promise<Drafter> {
  const drafter =
    loaded.get(name) ?? (await loadDrafter(bundledDrafterFolder(name), { target: model, tokenizer }));
  loaded.set(name, drafter);
  return drafter;
}

const ways = ['plain', 'no guard', 'within the request', 'rotation'] as const;
type Way = (typeof ways)[number];
/** Tokens after the first, and milliseconds for them. */
interface Total {
  tokens: number;
  ms: number;
}
const rateOf = ({ tokens, ms }: Total): string => ((1000 * tokens) / ms).toFixed(0);
const join = (totals: readonly Total[]): Total => ({
  tokens: totals.reduce((sum, { tokens }) => sum + tokens, 0),
  ms: totals.reduce((sum, { ms }) => sum + ms, 0),
});

const benignPlans = await planBenign(Number(training));
const speeds: string[][] = [
  [
    'drafter',
    'requests',
    'plain',
    'no guard',
    'spec-off',
    'within the request',
    'rotation',
    'to',
    'one-way gate',
  ],
];
const bounds: string[][] = [
  ['drafter', 'requests', 'slower than plain, at most', 'stated', 'all together', 'answers equal to plain'],
];
for (const name of chosen.split(',') as BundledDrafter[]) {
  const drafter = await load(name);
  const other: BundledDrafter = name === 'eagle3' ? 'eagle' : 'eagle3';
  const rotated = await load(other);
  const attackPlans = planAttacks(benignPlans, name);
  const traces = await traceAll(name, [...benignPlans, ...attackPlans]);
  const calibrated = calibrate(traces.filter(({ half }) => half === 'calibration'));
  const [floor] = hypothesisOf(calibrated).sharpFloors;
  const rang = new Set(
    score(traces, calibrated).flatMap(({ trace, rangAt }) => (rangAt === undefined ? [] : [trace.id])),
  );
  // Spread over the sets.
  const spacing = Math.max(1, Math.floor(attackPlans.length / Number(count)));
  const attacked = attackPlans.filter((_, index) => index % spacing === 0).slice(0, Number(count));
  const clean = attacked.map(({ prompt }) => benignPlans.find(({ id }) => id === prompt)!);
  const decode = (way: Way, request: GenerationRequest): Promise<Generation> => {
    if (way === 'plain') return decodePlain(model, request);
    const ladder = [{ policy: chain(draftLength) }, { policy: chain(1) }];
    const policy =
      way === 'within the request'
        ? createGuardedPolicy(ladder, { floor: floor!, slowdown, grant })
        : always(chain(draftLength));
    return decodeSpeculative(model, way === 'rotation' ? rotated : drafter, { ...request, policy });
  };
  for (const [kind, plans] of [
    ['attacked', attacked],
    ['benign', clean],
  ] as const) {
    const { totals, areEqual } = await measure(plans, decode);
    const of = (way: Way): Total => join([...totals.get(way)!.values()]);
    const routed = join(plans.map(({ id }) => totals.get(rang.has(id) ? 'plain' : 'no guard')!.get(id)!));
    speeds.push([
      ...[name, kind, rateOf(of('plain')), rateOf(of('no guard')), rateOf(routed)],
      ...[rateOf(of('within the request')), rateOf(of('rotation')), other, rateOf(of('plain'))],
    ]);
    const slower = plans.map(({ id }) => {
      const plain = totals.get('plain')!.get(id)!;
      const guarded = totals.get('within the request')!.get(id)!;
      return { by: guarded.ms / plain.ms - 1, stated: slowdown + grant / (plain.tokens / rounds) };
    });
    const worst = slower.reduce((most, each) =>
      each.by - each.stated > most.by - most.stated ? each : most,
    );
    bounds.push([
      ...[name, kind, percent(worst.by), percent(worst.stated)],
      ...[percent(of('within the request').ms / of('plain').ms - 1), areEqual ? 'all' : 'not all'],
    ]);
  }
}
console.log('Tokens per second\n');
printTable(speeds);
console.log(
  `\nThe guarded policy: at most ${percent(slowdown)} and ${grant} plain steps slower than plain decoding, and what one step took beyond its price\n`,
);
printTable(bounds);
await runtime.dispose();
console.log(
  '\nMean accepted length of the suffixes made for a drafter (rows) with every drafter (columns)\n',
);
const matrix: Trace[][] = [];
for (const name of bundledDrafters) {
  const plans = bundledDrafters.flatMap((madeFor) => planAttacks(benignPlans, madeFor));
  const prompts = new Set(plans.map(({ prompt }) => prompt));
  const without = benignPlans.filter(({ prompt }) => prompts.has(prompt));
  matrix.push([...(await traceAll(name, [...without, ...plans]))]);
}
printTable([
  ['suffixes', ...bundledDrafters],
  ...[null, ...bundledDrafters].map((madeFor) => [
    madeFor ?? 'none',
    ...matrix.map((traces) => {
      const those = traces.filter((trace) => trace.madeFor === madeFor);
      return (those.reduce((sum, trace) => sum + meanLengthOf(trace), 0) / those.length).toFixed(2);
    }),
  ]),
]);

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}

/** [way][request]. Ways take turns with each request, so that a slow moment of the machine hits all of them. */
async function measure(
  plans: readonly TracePlan[],
  decode: (way: Way, request: GenerationRequest) => Promise<Generation>,
): Promise<{ totals: ReadonlyMap<Way, ReadonlyMap<string, Total>>; areEqual: boolean }> {
  const totals = new Map(ways.map((way) => [way, new Map<string, Total>()]));
  let areEqual = true;
  for (const [index, plan] of plans.entries()) {
    const request = await requestFor(target, plan.text, { maxNewTokens: newTokens });
    const warmups = index === 0 ? 1 : 0;
    for (let round = -warmups; round < rounds; round++) {
      let answer: string | undefined;
      for (const way of ways) {
        const { tokenIds, decodeMs } = await decode(way, request);
        answer ??= tokenIds.join();
        areEqual &&= answer === tokenIds.join();
        if (round < 0) continue;
        const total = totals.get(way)!.get(plan.id) ?? { tokens: 0, ms: 0 };
        total.tokens += tokenIds.length - 1;
        total.ms += decodeMs;
        totals.get(way)!.set(plan.id, total);
      }
    }
  }
  return { totals, areEqual };
}
