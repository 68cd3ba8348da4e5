/**
 * What the accepted length along the clean answer costs for the candidates of one search step, three ways: every
 * suffix decoded by itself, all of them decoded together by the engine, and the forced pass that scores them without
 * decoding anything. All three must come to the same lengths.
 * Run: npm run bench:same-answer [-- DRAFTER [CANDIDATES [THREADS]]]
 */
import { listAllowedTokens } from '../src/audit/allowed-tokens.js';
import { preparePrompt } from '../src/audit/audit-prompt.js';
import { drawRandomSuffix } from '../src/audit/controls.js';
import { decodeHeld } from '../src/audit/measure-arm.js';
import { createObjective } from '../src/audit/objectives.js';
import { readPromptState } from '../src/audit/prompt-state.js';
import { Scorer } from '../src/audit/scoring.js';
import { compileSearch } from '../src/audit/search-programs.js';
import { presets } from '../src/audit/settings.js';
import { createRandom } from '../src/core/random.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { Engine } from '../src/decode/engine/engine.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import type { SpeculativeGeneration } from '../src/decode/speculative.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { describeMachine } from '../src/measure/machine.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { printTable, time } from './stopwatch.js';

const [name = 'eagle3', count = '12', threads = '2'] = process.argv.slice(2);
const length = 4;
const rounds = 5;
const settings = presets.standard;
const { processor, architecture } = describeMachine();
console.log(
  `${processor} (${architecture}), ${threads} threads, ${name}, ${count} suffixes, chain:${length}\n`,
);

const runtime = createOnnxRuntime({ threads: Number(threads) });
const target = await openTarget(bundledTarget, { runtime });
const drafter = await loadDrafter(findDrafter(name), { target: target.model, tokenizer: target.tokenizer });
const models = { target: target.model, drafter };
const programs = compileSearch(models, createObjective('margin', 1), { ...settings, draftLevels: length });
const text = 'Write a Python function that returns the n-th Fibonacci number.';
const prompt = await preparePrompt(target, { id: 'bench', text, turns: [text] }, { ...settings, seed: 0 });
const allowed = listAllowedTokens(target.tokenizer, target.model.configuration.vocabularySize, {
  allowNonAscii: false,
});
const scorer = new Scorer(target, models, programs, prompt, await readPromptState(models, prompt.beforeIds));
const random = createRandom(0, 'suffixes');
const suffixes: (readonly number[])[] = [];
while (suffixes.length < Number(count))
  suffixes.push(await drawRandomSuffix(target, prompt, allowed, settings.suffixLength, random));

const policy = always({ kind: 'chain', length } as const);
const setup = {
  target,
  drafter,
  policy,
  prompt,
  ...settings,
  maxNewTokens: prompt.windowIds.length,
  seed: 0,
};
const lengthOf = ({ acceptance }: SpeculativeGeneration): number => acceptance.meanAcceptedLength;
const ways = {
  'decoded one after the other': async () => {
    const lengths: number[] = [];
    for (const suffixIds of suffixes) lengths.push(lengthOf(await decodeHeld(setup, suffixIds)));
    return lengths;
  },
  'decoded together': () => {
    const engine = new Engine({ concurrency: suffixes.length });
    const decoded = suffixes.map((suffixIds) =>
      engine.run((scheduler) => decodeHeld(setup, suffixIds, { scheduler })),
    );
    return Promise.all(decoded.map(async (generation) => lengthOf(await generation)));
  },
  'one forced pass': async () => {
    const scored = await scorer.score(
      suffixes[0]!,
      suffixes.map((suffixIds) => ({ suffixIds, first: 0 })),
    );
    return scored.map((each) => each.length);
  },
} as const;

const rows: string[][] = [];
let slowest: number | undefined;
const expected = (await ways['decoded one after the other']()).map((each) => each.toFixed(6)).join();
for (const [way, run] of Object.entries(ways)) {
  const found = (await run()).map((each) => each.toFixed(6)).join();
  const { bestMs, medianMs } = await time(run, rounds, 1);
  slowest ??= medianMs;
  rows.push([
    way,
    `${medianMs.toFixed(0)} ms`,
    `${bestMs.toFixed(0)} ms`,
    `${(slowest / medianMs).toFixed(1)}x`,
    found === expected ? 'the same' : `others: ${found}`,
  ]);
}
await runtime.dispose();
printTable([['lengths', 'median', 'best', 'faster', 'values'], ...rows]);
