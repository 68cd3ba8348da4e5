/**
 * Defences at inference time in one table: for each drafter, prompts without a suffix, with the one that an audit made for it
 * and with a random one of equal length as the blind control; decoded along the target's clean answer by every defence in
 * turn. Accepted tokens of a pass say what the attack is left with; times, taken by turns, what a defence costs where nobody
 * attacks. Intervals are over prompts. Lengths follow from the models, the suffixes and the prices of steps that are measured
 * first (or read: --prices), and from nothing else of the machine.
 *
 * Run: npm run bench:defences [-- --drafters sps,eagle3,eagle --prompts 24 --timed 24 --tokens 96 --learn 60 --threads 2
 *   --hardened DIR=DRAFTER ... --attacks FILE --only WORDS --prices DIR --out out/defences]
 * `--attacks` has the suffixes of another audit, in the form of bench/guard-attacks.jsonl; `--only` names
 * the defences to measure by parts of their names, beside `nothing`. `--hardened` adds rows for a
 * drafter that was made robust from DRAFTER, under the suffixes that were made for DRAFTER.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createAdaptivePolicy } from '../src/decode/policies/adaptive-policy.js';
import type { BundledDrafter } from '../src/decode/bundled-models.js';
import { bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { Engine } from '../src/decode/engine/engine.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import { BudgetedDrafting } from '../src/decode/policies/budgeted-drafting.js';
import type { PolicyChooser } from '../src/decode/policies/policy-chooser.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import type { SpeculativeGeneration } from '../src/decode/speculative.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import { completeRequest, encodePrompt, openTarget } from '../src/decode/target.js';
import type { Drafter } from '../src/draft/drafter.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { rotateDrafters } from '../src/draft/rotating-drafter.js';
import { describeMachine } from '../src/measure/machine.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import type { PriceList } from './defence-choosers.js';
import { changeUnderDoubt, never, takeTurns, tellPrices } from './defence-choosers.js';
import type { HeldRequest } from './defence-requests.js';
import { prepareRequests, spread } from './defence-requests.js';
import type { Arm, Measured } from './defence-table.js';
import { arms, columns, listDefences } from './defence-table.js';
import { measurePrices, readPrices } from './defence-prices.js';
import type { Attack } from './guard-traces.js';
import { attacks as saved, planBenign } from './guard-traces.js';
import { printTable } from './stopwatch.js';

const count = (value: number) => ({ type: 'string', default: String(value) }) as const;
const { values: given } = parseArgs({
  options: {
    drafters: { type: 'string', default: 'sps,eagle3,eagle' },
    ...{ prompts: count(24), timed: count(24), tokens: count(96), learn: count(60), threads: count(2) },
    hardened: { type: 'string', multiple: true, default: [] },
    ...{ prices: { type: 'string' }, attacks: { type: 'string' }, only: { type: 'string', default: '' } },
    out: { type: 'string', default: join(packageRoot, 'out/defences') },
  },
});
const chain = { kind: 'chain', length: 4 } as const;
const newTokens = Number(given.tokens);
const lookUp = 'ngram';

const runtime = createOnnxRuntime({ threads: Number(given.threads) });
const target = await openTarget(bundledTarget, { runtime });
const { model, tokenizer } = target;
const loaded = new Map<string, Drafter>();
const benign = await planBenign(0);
const attacks =
  given.attacks === undefined
    ? saved
    : readFileSync(given.attacks, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Attack);
const { processor, architecture, nodeVersion } = describeMachine();
mkdirSync(given.out, { recursive: true });
console.log(
  `${processor} (${architecture}), Node ${nodeVersion}, ${given.threads} threads, up to ${newTokens} tokens of each answer, chains of ${chain.length}\n`,
);
const rows: (readonly string[])[] = [];
for (const name of given.drafters.split(',')) {
  try {
    await measureDrafter(name as BundledDrafter);
  } catch (cause) {
    console.error(`${name}:`, cause);
  }
}
printTable([columns, ...rows]);
await runtime.dispose();

async function load(name: string): Promise<Drafter> {
  const known = loaded.get(name);
  if (known !== undefined) return known;
  const drafter = await loadDrafter(findDrafter(name), { target: model, tokenizer });
  loaded.set(name, drafter);
  return drafter;
}

async function decode(
  drafter: Drafter,
  policy: PolicyChooser,
  { promptIds, held, scheduler }: HeldRequest,
): Promise<SpeculativeGeneration> {
  const request = completeRequest(target, promptIds, { maxNewTokens: held.length });
  return decodeSpeculative(model, drafter, { ...request, scheduler, policy, held, mustDraft: true });
}

/** A defence: what decodes one request, by the prices that it is told; with others where there is a scheduler. */
type Defence = (request: HeldRequest) => Promise<SpeculativeGeneration>;
type Measures = ReadonlyMap<string, ReadonlyMap<Arm, Measured[]>>;

/** Of all requests, some at once: what is accepted does not depend on who else decodes. */
async function countLengths(
  defences: ReadonlyMap<string, Defence>,
  requests: readonly Record<Arm, HeldRequest>[],
): Promise<Measures> {
  const engine = new Engine({ concurrency: 8 });
  const measured = new Map<string, Map<Arm, Measured[]>>();
  for (const [way, defence] of defences) {
    const all = arms.map(async (arm) => {
      const own = requests.map(async (each) => {
        const { steps } = await engine.run((scheduler) => defence({ ...each[arm], scheduler }));
        return countSteps(each[arm], steps);
      });
      return [arm, await Promise.all(own)] as const;
    });
    measured.set(way, new Map(await Promise.all(all)));
    console.error(`${way} is counted`);
  }
  return measured;
}

function countSteps({ held }: HeldRequest, steps: SpeculativeGeneration['steps']): Measured {
  const accepted = steps.reduce((sum, step) => sum + step.accepted, 0);
  return { steps: steps.length, accepted, tokens: held.length - 1 }; // the first comes of the prompt
}

/** One at a time, defences by turns, so that a slow moment of the machine hits all of them. */
async function measureTimes(
  defences: ReadonlyMap<string, Defence>,
  requests: readonly Record<Arm, HeldRequest>[],
  measured: Measures,
): Promise<void> {
  const order = [...defences];
  let different = 0;
  const places = spread([...requests.keys()], Number(given.timed));
  for (const [round, index] of places.entries()) {
    const each = requests[index]!;
    for (const arm of arms) {
      const turn = round % order.length;
      // Nobody is always the first behind another prompt.
      for (const [way, defence] of [...order.slice(turn), ...order.slice(0, turn)]) {
        if (round === 0) await defence(each[arm]); // the first scheduler compiles
        const { steps, decodeMs } = await defence(each[arm]);
        const counted = measured.get(way)!.get(arm)!;
        const { accepted } = countSteps(each[arm], steps);
        if (accepted !== counted[index]!.accepted) different += 1;
        counted[index] = { ...counted[index]!, ms: decodeMs };
      }
    }
    console.error(`${round + 1} of ${places.length} timed; ${different} lengths differ from those counted`);
  }
}

async function measureDrafter(name: BundledDrafter): Promise<void> {
  const other = name === 'sps' ? 'eagle3' : 'sps';
  const names = [name, other, lookUp];
  const usual = benign.filter(({ half }) => half === 'calibration').map(({ text }) => text);
  const chosen = attacks.filter(({ drafter, kind }) => drafter === name && kind === 'same-answer');
  const requests = await prepareRequests(target, spread(chosen, Number(given.prompts)), newTokens);
  const prices =
    given.prices === undefined
      ? await measurePrices(
          target,
          new Map(await Promise.all(names.map(async (each) => [each, await load(each)] as const))),
          usual.slice(-6),
        )
      : readPrices(join(given.prices, `${name}.json`));
  console.error(`${name}: ${requests.length} prompts; prices in ms ${JSON.stringify(prices)}`);
  const defences = await createDefences(name, other, prices);
  const measured = await countLengths(defences, requests);
  await measureTimes(defences, requests, measured);
  const kept = [...measured].map(([way, ofArms]) => [way, Object.fromEntries(ofArms)] as const);
  const file = join(given.out, `${name}.json`);
  writeFileSync(file, JSON.stringify({ prices, measured: Object.fromEntries(kept) }, null, 1));
  rows.push(...listDefences(name, measured));
}

async function createDefences(
  name: BundledDrafter,
  other: string,
  prices: PriceList,
): Promise<ReadonlyMap<string, Defence>> {
  const own = await load(name);
  const [second, table] = [await load(other), await load(lookUp)];
  const alone =
    (drafter: Drafter, create: () => PolicyChooser, drafterName = name as string): Defence =>
    (request) =>
      decode(drafter, tellPrices(create(), prices, [drafterName], request.promptIds.length), request);
  const together =
    (
      members: readonly (readonly [string, Drafter])[],
      create: (choosers: PolicyChooser[], use: (place: number) => void) => PolicyChooser,
      chooserOf: (drafter: Drafter) => PolicyChooser = () => always(chain),
    ): Defence =>
    (request) => {
      const rotating = rotateDrafters(members.map(([, drafter]) => drafter));
      const choosers = members.map(([, drafter]) => chooserOf(drafter));
      const chooser = create(choosers, (place) => {
        rotating.use(place);
      });
      const memberNames = members.map(([memberName]) => memberName);
      return decode(rotating, tellPrices(chooser, prices, memberNames, request.promptIds.length), request);
    };
  const shorter = (drafter: Drafter): PolicyChooser => createAdaptivePolicy(drafter);
  const withOther = [[name, own] as const, [other, second] as const];
  const withTable = [[name, own] as const, [lookUp, table] as const];
  const doubt = (choosers: PolicyChooser[], use: (place: number) => void): PolicyChooser =>
    changeUnderDoubt([choosers[0]!, choosers[1]!], use);
  const turns = (choosers: PolicyChooser[], use: (place: number) => void): PolicyChooser =>
    takeTurns(choosers, use);
  const defences: [string, Defence][] = [
    ['plain', alone(table, () => never, lookUp)],
    ['nothing', alone(own, () => always(chain))],
    [`${other} alone`, alone(second, () => always(chain), other)],
    ['n-gram alone', alone(table, () => always(chain), lookUp)],
    [`turns with ${other}`, together(withOther, turns)],
    [`${other} under doubt`, together(withOther, doubt)],
    ['n-gram under doubt', together(withTable, doubt)],
    ['shorter drafts', alone(own, () => shorter(own))],
    ['turns + shorter', together(withOther, turns, shorter)],
    [`${other} under doubt + shorter`, together(withOther, doubt, shorter)],
    ['n-gram under doubt + shorter', together(withTable, doubt, shorter)],
    ['guarded ladder', await guard(name, other, prices)],
  ];
  for (const [index, folder] of hardenedOf(name).entries()) {
    const drafter = await loadDrafter(folder, { target: model, tokenizer });
    const mark = index === 0 ? '' : ` ${index + 1}`;
    defences.push([`hardened drafter${mark}`, alone(drafter, () => always(chain))]);
    defences.push([`hardened${mark} + shorter`, alone(drafter, () => shorter(drafter))]);
  }
  const parts = given.only.split(',');
  return new Map(defences.filter(([way]) => way === 'nothing' || parts.some((part) => way.includes(part))));
}

function hardenedOf(name: string): readonly string[] {
  return given.hardened.flatMap((text) => {
    const [folder, of] = text.split('=');
    if (folder === undefined || of === undefined)
      throw new Error(`--hardened is ${text}; expected DIR=DRAFTER.`);
    return of === name ? [folder] : [];
  });
}

/** As `serve --guarded` does it, with floors from usual requests before anything is measured. */
async function guard(name: string, other: string, prices: PriceList): Promise<Defence> {
  const members = new Map([
    [name, await load(name)],
    [other, await load(other)],
  ]);
  const drafting = new BudgetedDrafting(members, model, {});
  const ladder = [name, other, lookUp];
  const begin = () =>
    drafting.begin({ name, policy: `chain:${chain.length}`, isGreedy: true, hasSharedPrompt: false });
  const usual = benign.filter(({ half }) => half === 'calibration').slice(0, Number(given.learn));
  for (const { text } of usual) {
    const promptIds = await encodePrompt(target, text);
    const request = completeRequest(target, promptIds, { maxNewTokens: newTokens });
    const { drafter, policy, end } = begin();
    const told = tellPrices(policy, prices, ladder, promptIds.length);
    const { steps } = await decodeSpeculative(model, drafter, { ...request, policy: told, mustDraft: true });
    end(steps);
  }
  // Requests of the table teach nothing: which come first would matter.
  return (request) => {
    const { drafter, policy } = begin();
    return decode(drafter, tellPrices(policy, prices, ladder, request.promptIds.length), request);
  };
}
