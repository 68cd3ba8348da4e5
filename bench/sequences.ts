/**
 * Several sequences at once: plain and speculative decoding of 1, 2, 4, 8 and 16 prompts together, in tokens per second
 * of all of them; where drafting stops paying; what the engine spends outside programs; bytes and forks of caches.
 * Run: npm run bench:sequences [-- NEW_TOKENS [DRAFTER]]
 */
import { bundledTarget } from '../src/decode/bundled-models.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import { Engine } from '../src/decode/engine.js';
import type { GenerationRequest } from '../src/decode/plain.js';
import { decodePlain } from '../src/decode/plain.js';
import { prefill } from '../src/decode/prefill.js';
import { always, decodeSpeculative } from '../src/decode/speculative.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import { resolvePolicy } from '../src/draft/grow-tree.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { describeMachine } from '../src/measure/machine.js';
import type { Meeting } from '../src/model/meeting.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompt-set.js';
import { median, printTable, time } from './stopwatch.js';

const threads = 2;
const rounds = 3;
const [newTokens = '96', drafterName = 'eagle3'] = process.argv.slice(2);
const { processor, architecture, nodeVersion } = describeMachine();
console.log(
  `${processor} (${architecture}), ${threads} threads, Node ${nodeVersion}, ${newTokens} new tokens\n`,
);

const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const drafter = await loadDrafter(findDrafter(drafterName), { target: target.model });
const prompts = await loadPrompts('humaneval', { folder: '../shared/data' });
const requests: GenerationRequest[] = [];
for (const { text } of prompts.slice(0, 64)) {
  const promptIds = await encodePrompt(target, text);
  // Without stop tokens, so that all of them run to the same length.
  requests.push({
    promptIds,
    maxNewTokens: Number(newTokens),
    sampling: { temperature: 0 },
    seed: 0,
    stopIds: [],
  });
}

type Decode = (request: GenerationRequest, meeting: Meeting) => Promise<unknown>;
const plain: Decode = (request, meeting) => decodePlain(target.model, { ...request, meeting });
const drafting =
  (length: number): Decode =>
  (request, meeting) => {
    const policy = always(resolvePolicy({ kind: 'chain', length }, drafter));
    return decodeSpeculative(target.model, drafter, { ...request, policy, meeting });
  };
const contenders: readonly (readonly [string, Decode])[] = [
  ['plain', plain],
  ...[1, 3].map((length) => [`${drafterName} chain:${length}`, drafting(length)] as const),
];

/** Tokens per second of all sequences while all of them decode, their prompts read and none at its end; and the share outside programs. */
async function measure(decode: Decode, count: number): Promise<{ rate: number; outside: number }> {
  const engine = new Engine({ concurrency: count });
  const start = performance.now();
  const times = await Promise.all(
    requests.slice(0, count).map(async (request) => {
      const emitted: number[] = [];
      const onToken = (): void => void emitted.push(performance.now());
      await engine.run((meeting) => decode({ ...request, onToken }, meeting));
      return emitted;
    }),
  );
  const outside = 1 - engine.counts.programMs / (performance.now() - start);
  const from = Math.max(...times.map((emitted) => emitted[0]!));
  const to = Math.min(...times.map((emitted) => emitted.at(-1)!));
  const tokens = times.flat().filter((at) => at > from && at <= to).length;
  return { rate: tokens / ((to - from) / 1000), outside };
}

const counts = [1, 2, 4, 8, 16];
const table = [
  ['sequences', ...contenders.map(([name]) => name), 'plain against one', 'outside programs, plain'],
];
const rates = new Map<string, number[]>();
const outside = new Map<number, number[]>();
for (let round = -1; round < rounds; round++) {
  for (const count of counts) {
    for (const [name, decode] of contenders) {
      const { rate, outside: share } = await measure(decode, count);
      if (round < 0) continue; // warming up
      rates.set(`${name} ${count}`, [...(rates.get(`${name} ${count}`) ?? []), rate]);
      if (name === 'plain') outside.set(count, [...(outside.get(count) ?? []), share]);
    }
  }
}
for (const count of counts) {
  const rate = (name: string, of: number): number => median(rates.get(`${name} ${of}`)!);
  table.push([
    String(count),
    ...contenders.map(([name]) => `${rate(name, count).toFixed(0)} tokens/s`),
    `${(rate('plain', count) / rate('plain', 1)).toFixed(2)}x`,
    `${(100 * median(outside.get(count)!)).toFixed(1)} %`,
  ]);
}
printTable(table);

const cache = target.model.createCache();
await prefill(target.model, cache, requests[0]!.promptIds, { want: [] });
const fork = await time(() => Promise.resolve(cache.fork()), 50);
console.log(
  `\nKeys and values: ${(cache.pool.bytes / 2 ** 20 / cache.pool.lanes).toFixed(1)} MiB for the first 256 positions of a sequence. A fork at ${cache.length} positions: ${fork.medianMs.toFixed(2)} ms.`,
);
await runtime.dispose();
