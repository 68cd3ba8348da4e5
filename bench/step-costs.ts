/**
 * What a step of speculative decoding is made of: the target's pass over a few rows, and each drafter's chains. Chains are
 * timed where they are used, between passes of the target, and alone in a loop: the difference is what it costs to find
 * the caches full of the target's weights. And where the limit of EAGLE-3's draft vocabulary lies: the share of the
 * target's answers that it cannot propose.
 * Run: npm run bench:step-costs
 */
import { join } from 'node:path';
import { bundledDrafters, bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import type { GenerationRequest } from '../src/decode/plain.js';
import { decodePlain } from '../src/decode/plain.js';
import { prefill } from '../src/decode/prefill.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { describeMachine } from '../src/measure/machine.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { median, printTable, time } from './stopwatch.js';

const threads = 2;
const context = 200;
const lengths = [1, 2, 3, 4];

const machine = describeMachine();
console.log(
  `${machine.processor} (${machine.architecture}), ${threads} threads, Node ${machine.nodeVersion}\n`,
);
const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const { model } = target;
const folder = join(packageRoot, '../shared/data');
const loadSet = (set: string) => loadPrompts(set, { folder });
const requestOf = async (text: string): Promise<GenerationRequest> => ({
  promptIds: await encodePrompt(target, text),
  maxNewTokens: 96,
  sampling: { temperature: 0 },
  seed: 0,
  stopIds: target.stopIds,
});

const cache = model.createCache();
const ids = Array.from({ length: context }, (_, index) => 300 + ((index * 37) % 3000));
await prefill(model, cache, ids, { want: [] });
const passes = [['rows', `pass of the target at context ${context}, median`]];
for (const rows of [1, 2, 3, 4, 5, 8, 16]) {
  const tokens = Int32Array.from({ length: rows }, (_, row) => 500 + row);
  const { medianMs } = await time(() => model.forward({ tokens, cache, want: ['argmax'] }), 80, 10);
  passes.push([String(rows), `${medianMs.toFixed(2)} ms`]);
}
printTable(passes);

console.log();
const chains = [['drafter', ...lengths.map((length) => `chain:${length}, in a step`), 'chain:3, in a loop']];
const [, , prompt] = await loadSet('humaneval');
for (const name of bundledDrafters) {
  const drafter = await loadDrafter(findDrafter(name), { target: model, tokenizer: target.tokenizer });
  const request = await requestOf(prompt!.text);
  const cells: string[] = [];
  for (const length of lengths) {
    const policy = always({ kind: 'chain', length });
    const { steps } = await decodeSpeculative(model, drafter, { ...request, policy });
    cells.push(`${median(steps.map(({ draftMs }) => draftMs)).toFixed(2)} ms`);
  }
  const session = drafter.startSession();
  const want = drafter.reads === 'tokens' ? [] : [drafter.reads];
  const last = await model.forward({
    tokens: Int32Array.from(ids.slice(0, 4)),
    cache,
    want,
    taps: drafter.taps,
  });
  const states = drafter.reads === 'tokens' ? undefined : last[drafter.reads]!;
  const alone = await time(
    () => {
      session.observe({ tokens: Int32Array.of(ids[0]!), states, next: ids[1]! });
      return session.draftChain!(3);
    },
    80,
    10,
  );
  chains.push([name, ...cells, `${alone.medianMs.toFixed(2)} ms`]);
}
printTable(chains);

console.log();
const eagle3 = await loadDrafter(findDrafter('eagle3'), { target: model, tokenizer: target.tokenizer });
const proposable = new Set(eagle3.graph?.targetTokens);
const shares = [['prompts', "tokens of the target's answers outside EAGLE-3's draft vocabulary"]];
for (const set of ['mt-bench', 'humaneval', 'gsm8k']) {
  let outside = 0;
  let all = 0;
  for (const { text } of (await loadSet(set)).slice(0, 20)) {
    const { tokenIds } = await decodePlain(model, await requestOf(text));
    outside += tokenIds.filter((token) => !proposable.has(token)).length;
    all += tokenIds.length;
  }
  shares.push([set, `${((100 * outside) / all).toFixed(1)} %`]);
}
printTable(shares);
await runtime.dispose();
