/**
 * Does the end of a prompt tell an attack? The bundled target reads benign prompts, and those with the suffixes that the audit
 * found (bench/guard-attacks.jsonl), and says how unlikely it finds each token, as an engine does that is asked for the
 * log-probabilities of a prompt. What the guard would read of them is compared: the mean over the last tokens.
 * Run: npm run bench:guard-prompt-tails
 */
import { logSumExp } from '../src/core/vector.js';
import { bundledDrafters, bundledTarget } from '../src/decode/bundled-models.js';
import type { Target } from '../src/decode/target.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import { PromptTails } from '../src/guard/prompt-tail.js';
import type { PromptTail } from '../src/guard/request-record.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { areaUnderRoc, thresholdFor } from './guard-scores.js';
import type { TracePlan } from './guard-traces.js';
import { planAttacks, planBenign } from './guard-traces.js';
import { printTable } from './stopwatch.js';

const windows = [8, 16, 24, 32, 48, 64];
const rates = [0.01, 0.05, 0.1];
const shown = 32;

interface Read {
  readonly plan: TracePlan;
  /** [token] without the first, which nothing predicts. */
  readonly surprisals: readonly number[];
}

const runtime = createOnnxRuntime({ threads: 2 });
const target = await openTarget(bundledTarget, { runtime });
const benignPlans = await planBenign(0);
const benign = await readAll(benignPlans);
const attacked = await readAll(bundledDrafters.flatMap((drafter) => planAttacks(benignPlans, drafter)));
await runtime.dispose();

const calibration = benign.filter(({ plan }) => plan.half === 'calibration');
const heldOut = benign.filter(({ plan }) => plan.half === 'held-out');
console.log(`${heldOut.length} benign prompts that are held out, ${attacked.length} with suffixes.`);
console.log('\nMean surprisal of the last tokens, nats: by tokens that are looked at\n');
printTable([
  ['tokens', 'benign', 'attacked', 'area', ...rates.map((rate) => `found at ${100 * rate} % false alarms`)],
  ...windows.map((tokens) => describe(String(tokens), heldOut, attacked, (read) => tailOf(read, tokens))),
]);
console.log(`\nBy drafter, over the last ${shown} tokens\n`);
printTable([
  ['drafter', 'benign', 'attacked', 'area', ...rates.map((rate) => `found at ${100 * rate} % false alarms`)],
  ...bundledDrafters.map((drafter) => {
    const those = attacked.filter(({ plan }) => plan.madeFor === drafter);
    return describe(drafter, heldOut, those, (read) => tailOf(read, shown));
  }),
]);
console.log(`\nBenign prompts by set, over the last ${shown} tokens\n`);
const sets = [...new Set(benign.map(({ plan }) => plan.set))];
printTable([
  ['set', 'prompts', 'mean', 'highest'],
  ...sets.map((set) => {
    const tails = benign.filter(({ plan }) => plan.set === set).map((read) => tailOf(read, shown));
    return [set, String(tails.length), mean(tails).toFixed(2), Math.max(...tails).toFixed(2)];
  }),
]);
const tails = new PromptTails();
const toTail = (read: Read): PromptTail => ({ tokens: shown, surprisal: tailOf(read, shown) });
for (const read of calibration) tails.learnUsual('target', toTail(read));
const countUnlikely = (those: readonly Read[]): string =>
  `${those.filter((read) => tails.findUnlikely('target', toTail(read)) !== undefined).length} of ${those.length}`;
console.log(
  `\nCalled unlikely by a guard that has seen ${calibration.length} prompts of the calibration: ` +
    `${countUnlikely(heldOut)} benign prompts that are held out, ${countUnlikely(attacked)} with suffixes. ` +
    `The lowest of those with suffixes: ${Math.min(...attacked.map((read) => tailOf(read, shown))).toFixed(2)}.`,
);

async function readAll(plans: readonly TracePlan[]): Promise<readonly Read[]> {
  const read: Read[] = [];
  for (const plan of plans) read.push({ plan, surprisals: await surpriseOf(target, plan.text) });
  return read;
}

async function surpriseOf({ model }: Target, text: string): Promise<readonly number[]> {
  const ids = await encodePrompt(target, text);
  const cache = model.createCache();
  const { logits } = await model.forward({ tokens: Int32Array.from(ids), cache, want: ['logits'] });
  const width = logits!.length / ids.length;
  return ids.slice(1).map((id, row) => {
    const scores = logits!.subarray(row * width, (row + 1) * width);
    return logSumExp(scores) - scores[id]!;
  });
}

function describe(
  name: string,
  usualOnes: readonly Read[],
  others: readonly Read[],
  scoreOf: (read: Read) => number,
): string[] {
  const [low, high] = [usualOnes.map(scoreOf), others.map(scoreOf)];
  const found = rates.map((rate) => {
    const threshold = thresholdFor(low, rate);
    return percent(high.filter((score) => score > threshold).length / high.length);
  });
  return [name, mean(low).toFixed(2), mean(high).toFixed(2), areaUnderRoc(low, high).toFixed(3), ...found];
}

function tailOf({ surprisals }: Read, tokens: number): number {
  return mean(surprisals.slice(-tokens));
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}
