/**
 * Several sequences at once: plain and speculative decoding of 2, 4, 8 and 16 prompts together, in tokens per second of
 * all of them, against the same prompts one after the other; where drafting stops paying; what the engine spends outside
 * programs, also with 64 sequences waiting; bytes and forks of caches; 8 forks of a long prompt, which share its rows,
 * against 8 caches that hold them each.
 * Run: npm run bench:sequences [-- NEW_TOKENS [DRAFTER [PROMPT_SET]]]
 */
import { bundledTarget } from '../src/decode/bundled-models.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import { Engine } from '../src/decode/engine/engine.js';
import type { GenerationRequest } from '../src/decode/plain.js';
import { decodePlain } from '../src/decode/plain.js';
import { prefill } from '../src/decode/prefill.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import { resolvePolicy } from '../src/draft/tree/grow-tree.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { describeMachine } from '../src/measure/machine.js';
import type { KvCache } from '../src/model/cache/kv-cache.js';
import type { PassScheduler } from '../src/model/lanes/pass-scheduler.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompt-set.js';
import { median, printTable, time } from './stopwatch.js';

const threads = 2;
const rounds = 3;
const [newTokens = '96', drafterName = 'eagle3', set = 'humaneval'] = process.argv.slice(2);
const { processor, architecture, nodeVersion } = describeMachine();
console.log(
  `${processor} (${architecture}), ${threads} threads, Node ${nodeVersion}, ${newTokens} new tokens\n`,
);

const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const drafter = await loadDrafter(findDrafter(drafterName), { target: target.model });
const prompts = await loadPrompts(set, { folder: '../shared/data' });
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

type Decode = (request: GenerationRequest, scheduler: PassScheduler) => Promise<unknown>;
const plain: Decode = (request, scheduler) => decodePlain(target.model, { ...request, scheduler });
const drafting =
  (length: number): Decode =>
  (request, scheduler) => {
    const policy = always(resolvePolicy({ kind: 'chain', length }, drafter));
    return decodeSpeculative(target.model, drafter, { ...request, policy, scheduler });
  };
const contenders: readonly (readonly [string, Decode])[] = [
  ['plain', plain],
  ...[1, 3].map((length) => [`${drafterName} chain:${length}`, drafting(length)] as const),
];

async function decodeTogether(decode: Decode, engine: Engine, chosen: readonly GenerationRequest[]) {
  const start = performance.now();
  const times = await Promise.all(
    chosen.map(async (request) => {
      const emitted: number[] = [];
      const onToken = (): void => void emitted.push(performance.now());
      await engine.run((scheduler) => decode({ ...request, onToken }, scheduler));
      return emitted;
    }),
  );
  return { times, outside: 1 - engine.counts.programMs / (performance.now() - start) };
}

/** Tokens per second of all sequences while all of them decode, their prompts read and none at its end; and the share outside programs. */
async function measure(decode: Decode, count: number): Promise<{ rate: number; outside: number }> {
  const chosen = requests.slice(0, count);
  const { times, outside } = await decodeTogether(decode, new Engine({ concurrency: count }), chosen);
  const from = Math.max(...times.map((emitted) => emitted[0]!));
  const to = Math.min(...times.map((emitted) => emitted.at(-1)!));
  const tokens = times.flat().filter((at) => at > from && at <= to).length;
  return { rate: tokens / ((to - from) / 1000), outside };
}

/** The same prompts one after the other, from each one's first token to its last. */
async function measureInTurn(decode: Decode, count: number): Promise<number> {
  let [tokens, ms] = [0, 0];
  for (const request of requests.slice(0, count)) {
    const { times } = await decodeTogether(decode, new Engine({ concurrency: 1 }), [request]);
    tokens += times[0]!.length - 1;
    ms += times[0]!.at(-1)! - times[0]![0]!;
  }
  return tokens / (ms / 1000);
}

const counts = [2, 4, 8, 16];
const inTurn = 'plain, in turn';
const table = [
  ['sequences', inTurn, ...contenders.map(([name]) => name), 'plain against in turn', 'outside programs'],
];
const rates = new Map<string, number[]>();
const outside = new Map<number, number[]>();
const keep = <Key>(lists: Map<Key, number[]>, key: Key, value: number): void =>
  void lists.set(key, [...(lists.get(key) ?? []), value]);
for (let round = -1; round < rounds; round++) {
  for (const count of counts) {
    const single = await measureInTurn(plain, count);
    if (round >= 0) keep(rates, `${inTurn} ${count}`, single);
    for (const [name, decode] of contenders) {
      const { rate, outside: share } = await measure(decode, count);
      if (round < 0) continue; // warming up
      keep(rates, `${name} ${count}`, rate);
      if (name === 'plain') keep(outside, count, share);
    }
  }
}
for (const count of counts) {
  const rate = (name: string): number => median(rates.get(`${name} ${count}`)!);
  table.push([
    String(count),
    ...[inTurn, ...contenders.map(([name]) => name)].map((name) => `${rate(name).toFixed(0)} tokens/s`),
    `${(rate('plain') / rate(inTurn)).toFixed(2)}x`,
    `${(100 * median(outside.get(count)!)).toFixed(1)} %`,
  ]);
}
printTable(table);

const lengths = requests.slice(0, 16).map(({ promptIds }) => promptIds.length);
console.log(`\nPrompts of ${Math.min(...lengths)} to ${Math.max(...lengths)} tokens.`);
const queue = new Engine({ concurrency: 8 });
const short = requests.slice(0, 64).map((request) => ({ ...request, maxNewTokens: 16 }));
const waiting = await decodeTogether(plain, queue, short);
console.log(
  `${short.length} sequences asked at once, 8 running: ${(100 * waiting.outside).toFixed(1)} % outside programs.`,
);

const cache = target.model.createCache();
await prefill(target.model, cache, requests[0]!.promptIds, { want: [] });
const fork = await time(() => Promise.resolve(cache.fork()), 50);
console.log(
  `\nKeys and values: ${(cache.pool.bytes / 2 ** 20 / cache.pool.lanes).toFixed(1)} MiB for the first 256 positions of a sequence. A fork at ${cache.length} positions: ${fork.medianMs.toFixed(2)} ms.`,
);

const [forkCount, prefixLength, forkTokens] = [8, 512, 64];
const text = requests.flatMap(({ promptIds }) => promptIds).slice(0, prefixLength);
const readText = async (): Promise<KvCache> => {
  const own = target.model.createCache();
  await prefill(target.model, own, text, { want: [] });
  return own;
};

/** Greedy, each from another first token: tokens per second of all, and the bytes of all pools at the end. */
async function decodeCaches(caches: readonly KvCache[]): Promise<{ rate: number; bytes: number }> {
  const engine = new Engine({ concurrency: caches.length });
  const start = performance.now();
  await Promise.all(
    caches.map((own, index) =>
      engine.run(async (scheduler) => {
        let last = text[index]!;
        for (let count = 0; count < forkTokens; count++) {
          const tokens = Int32Array.of(last);
          const pass = await target.model.forward({ tokens, cache: own, want: ['argmax'], scheduler });
          own.appendAll(pass.rows, 1);
          last = pass.argmax![0]!;
        }
      }),
    ),
  );
  const rate = (caches.length * forkTokens) / ((performance.now() - start) / 1000);
  const pools = new Set(
    caches.flatMap(({ pool, prefix }) => (prefix === undefined ? [pool] : [pool, prefix.pool])),
  );
  const bytes = [...pools].reduce((total, pool) => total + pool.bytes, 0);
  for (const own of caches) own.release();
  return { rate, bytes };
}

const original = await readText();
const indices = Array.from({ length: forkCount }, (_, index) => index);
const kinds: readonly (readonly [string, () => Promise<KvCache[]>])[] = [
  ['rows of the prompt in each', () => Promise.all(indices.map(readText))],
  ['shared', () => Promise.resolve(indices.map(() => original.fork()))],
];
const forkRates = new Map<string, number[]>();
const forkBytes = new Map<string, number>();
for (let round = -1; round < rounds; round++) {
  for (const [name, make] of kinds) {
    const { rate, bytes } = await decodeCaches(await make());
    forkBytes.set(name, bytes);
    if (round >= 0) keep(forkRates, name, rate);
  }
}
console.log(
  `\n${forkCount} continuations of a prompt of ${text.length} tokens, ${forkTokens} new tokens each, plain:\n`,
);
printTable([
  ['prompt', 'keys and values', 'tokens/s'],
  ...kinds.map(([name]) => [
    name,
    `${(forkBytes.get(name)! / 2 ** 20).toFixed(1)} MiB`,
    median(forkRates.get(name)!).toFixed(0),
  ]),
]);
await runtime.dispose();
