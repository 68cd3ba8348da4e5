/**
 * How fast the bundled target writes what a drafter learns from, by how many conversations are answered at once. Every
 * twenty-fifth question of shared/data, each number of conversations in turn, several rounds.
 * Run: npm run bench:training-answers [-- --at-once 8,32,64 --every 25 --rounds 2 --threads 2]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { openTarget } from '../src/decode/target.js';
import { describeMachine } from '../src/measure/machine.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { answerConversations } from '../src/train/data/answers.js';
import { readConversations } from '../src/train/data/conversations.js';
import { median, printTable } from './stopwatch.js';

const { values: given } = parseArgs({
  options: {
    'at-once': { type: 'string', default: '8,32,64' },
    every: { type: 'string', default: '25' },
    rounds: { type: 'string', default: '2' },
    threads: { type: 'string', default: '2' },
  },
});
const threads = Number(given.threads);
const counts = given['at-once'].split(',').map(Number);
const maxNewTokens = 192;
const { processor, architecture } = describeMachine();
const all = await readConversations(join(packageRoot, '../shared/data/train.jsonl'));
const conversations = all.filter((_, index) => index % Number(given.every) === 0);
console.log(
  `${processor} (${architecture}), ${threads} threads, ${conversations.length} questions, greedy answers of up to ${maxNewTokens} tokens\n`,
);

const folder = mkdtempSync(join(tmpdir(), 'mistletoe-answers-'));
const speeds = new Map(counts.map((count) => [count, [] as number[]]));
for (let round = 0; round < Number(given.rounds); round++) {
  for (const [concurrency, ofCount] of speeds) ofCount.push(await answerAll(concurrency, round));
}
rmSync(folder, { recursive: true });
printTable([
  ['at once', 'tokens/s, best', 'median'],
  ...[...speeds].map(([count, ofCount]) => [
    String(count),
    ...[Math.max(...ofCount), median(ofCount)].map((speed) => speed.toFixed(0)),
  ]),
]);

/** Tokens that the target writes in a second. Prompts and the compilation of programs take their part of it. */
async function answerAll(concurrency: number, round: number): Promise<number> {
  const runtime = createOnnxRuntime({ threads });
  const target = await openTarget(bundledTarget, { runtime, date: '2026-01-01' });
  const file = join(folder, `${concurrency}-${round}.jsonl`);
  let written = 0;
  const began = performance.now();
  await answerConversations({
    ...{ target, conversations, file, maxNewTokens, concurrency },
    onProgress: ({ newTokens }) => (written = newTokens),
  });
  const seconds = (performance.now() - began) / 1000;
  await runtime.dispose();
  return written / seconds;
}
