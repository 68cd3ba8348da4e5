/**
 * A lookup beside a drafter against its halves, on the CPU: `sps`, `eagle3`, `ngram`, `ngram+sps` and `ngram+eagle3` with `auto`
 * and with `chain:4`. All of them answer each prompt in turn, starting with a different one each time; each answer must equal
 * plain decoding's. The first round warms up and is not counted; `auto` keeps what it learned in it. A set's speed is that of its
 * prompts one after the other, each in its fastest round, because other processes only make a round slower.
 * Options: [PROMPTS] [ROUNDS]
 */
import { deepStrictEqual } from 'node:assert';
import { bundledTarget } from '../src/core/package-files.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import { type GenerationRequest } from '../src/decode/request.js';
import { decodePlain } from '../src/decode/generate.js';
import type { PolicyChooser } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/generate.js';
import { createPolicy } from '../src/decode/generate.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import type { Drafter } from '../src/draft/drafter.js';
import { loadDrafter } from '../src/draft/systems.js';
import { parseDraftPolicy } from '../src/draft/tree/policy.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { promptFolder, promptSets } from './prompt-sets.js';
import { printNote, printTable } from './stopwatch.js';

const [promptCount = 12, rounds = 2] = process.argv.slice(2).map(Number);
const [maxNewTokens, threads] = [96, 2];
const drafters = ['ngram', 'sps', 'ngram+sps', 'eagle3', 'ngram+eagle3'];
const hybrids = ['sps', 'eagle3'];
const policies = ['auto', 'chain:4'];
const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const { model } = target;

interface Contender {
  readonly drafter: Drafter;
  readonly policy: PolicyChooser;
}

interface Total {
  tokens: number;
  steps: number;
  ms: number;
}

/** Decodes plainly without a contender. */
async function decode(request: GenerationRequest, contender: Contender | undefined) {
  if (contender === undefined) return { ...(await decodePlain(model, request)), targetPasses: 0 };
  const { drafter, policy } = contender;
  return decodeSpeculative(model, drafter, { ...request, policy, mustDraft: true });
}

async function encodeSet(set: string): Promise<readonly GenerationRequest[]> {
  const prompts = (await loadPrompts(set, { folder: promptFolder })).slice(0, promptCount);
  return Promise.all(
    prompts.map(async ({ text }) => ({
      promptIds: await encodePrompt(target, text),
      ...{ maxNewTokens, sampling: { temperature: 0 }, seed: 0, stopIds: target.stopIds },
    })),
  );
}

/** [name] `plain`, or a drafter and its policy. */
async function measureSet(
  set: string,
  contenders: ReadonlyMap<string, Contender | undefined>,
): Promise<ReadonlyMap<string, Total>> {
  const totals = new Map(
    [...contenders.keys()].map((name): [string, Total] => [name, { tokens: 0, steps: 0, ms: 0 }]),
  );
  const requests = await encodeSet(set);
  const fastest = requests.map(() => new Map<string, number>());
  const names = [...contenders.keys()];
  for (let round = 0; round <= rounds; round++) {
    for (const [prompt, request] of requests.entries()) {
      const answers = new Map<string, readonly number[]>();
      for (let place = 0; place < names.length; place++) {
        const name = names[(round + prompt + place) % names.length]!;
        const { tokenIds, targetPasses, decodeMs } = await decode(request, contenders.get(name));
        answers.set(name, tokenIds);
        if (round === 0) continue;
        fastest[prompt]!.set(name, Math.min(decodeMs, fastest[prompt]!.get(name) ?? Infinity));
        // The prefill gives the first token.
        const total = totals.get(name)!;
        total.tokens += tokenIds.length - 1;
        total.steps += targetPasses;
      }
      for (const tokenIds of answers.values()) deepStrictEqual(tokenIds, answers.get('plain'));
    }
  }
  for (const times of fastest) for (const [name, ms] of times) totals.get(name)!.ms += rounds * ms;
  return totals;
}

const loaded = new Map<string, Drafter>();
for (const name of drafters)
  loaded.set(name, await loadDrafter(findDrafter(name), { target: model, tokenizer: target.tokenizer }));
const results = new Map<string, ReadonlyMap<string, Total>>();
for (const set of promptSets) {
  const contenders = new Map<string, Contender | undefined>([['plain', undefined]]);
  for (const policy of policies)
    for (const [name, drafter] of loaded)
      contenders.set(`${name} ${policy}`, {
        drafter,
        policy: createPolicy(parseDraftPolicy(policy), drafter),
      });
  results.set(set, await measureSet(set, contenders));
}

const totalOf = (set: string, name: string): Total => results.get(set)!.get(name)!;
const speedOf = (set: string, name: string): number => totalOf(set, name).tokens / totalOf(set, name).ms;
const plainRow = promptSets.map((set) => `${(1000 * speedOf(set, 'plain')).toFixed(0)} tokens/s`);
const rows = [
  ['drafter', 'policy', ...promptSets],
  ['none', 'plain', ...plainRow],
  ...policies.flatMap((policy) =>
    drafters.map((drafter) => {
      const name = `${drafter} ${policy}`;
      const cells = promptSets.map((set) => {
        const { tokens, steps } = totalOf(set, name);
        return `${(tokens / steps).toFixed(2)}, ${(speedOf(set, name) / speedOf(set, 'plain')).toFixed(2)}x`;
      });
      return [drafter, policy, ...cells];
    }),
  ),
];
printTable(
  rows,
  `${promptCount} prompts of each set, up to ${maxNewTokens} new tokens, fastest of ${rounds} rounds, ${threads} threads: tokens per step, speed over plain decoding`,
);
const shares = policies.flatMap((policy) =>
  hybrids.map((half) => [
    ...[`ngram+${half}`, policy],
    ...promptSets.map((set) => {
      const halves = ['ngram', half].map((name) => speedOf(set, `${name} ${policy}`));
      return `${(speedOf(set, `ngram+${half} ${policy}`) / Math.max(...halves)).toFixed(2)}x`;
    }),
  ]),
);
printTable(
  [['hybrid', 'policy', ...promptSets], ...shares],
  'Speed over the better half with the same policy',
);
printNote("Every answer equals plain decoding's.");
await runtime.dispose();
