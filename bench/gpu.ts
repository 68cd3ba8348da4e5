/**
 * On an NVIDIA GPU: one pass over 1 to 64 rows, whether a row depends on the others in its pass, greedy decoding and one
 * step of the audit's search beside PyTorch, all with random weights in the 1B, 7B and 13B shapes in bfloat16, and the
 * agreement of the bundled models with the CPU.
 * Options: [decoding,rows,tokens,audit-step,agreement [SHAPE,...]]   (the shape `tiny` also runs on the CPU)
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Candidate } from '../src/audit/search/candidates.js';
import { createObjective } from '../src/audit/search/objectives.js';
import { readPromptState } from '../src/audit/search/prompt-state.js';
import { Scorer } from '../src/audit/search/scoring.js';
import { compileSearch } from '../src/audit/search/search-programs.js';
import { createRandom } from '../src/core/random.js';
import { argmax } from '../src/core/vector.js';
import { decodePlain } from '../src/decode/generate.js';
import { readPrefix } from '../src/decode/prompt-reading.js';
import type { Target } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/systems.js';
import type { Recording } from '../src/runtime/cuda/driver/device.js';
import { compareWithTorch, sizesOf } from './comparison.js';
import { checkAgreement } from './gpu-agreement.js';
import { makeRandomPrompt, openBenchDevice, openRandomTarget } from './gpu-models.js';
import { type ShapeName, shapes, writeRandomEagle3 } from './random-checkpoint.js';
import { printTable, time } from './stopwatch.js';

const [parts = 'decoding,rows,tokens,audit-step,agreement', chosen = '1B,7B,13B'] = process.argv.slice(2);
const lengths = { prompt: 64, suffix: 20, tail: 6, window: 20 };
const contexts = [64, 512];
const rowCounts = [1, 5, 16, 64];
/** Replays of a recorded pass, to see what the host adds. */
const replays = 50;
for (const name of chosen.split(',') as ShapeName[]) {
  if (parts.includes('decoding')) await measureDecoding(name);
  if (parts.includes('rows')) await compareRows(name);
  if (parts.includes('tokens')) await compareTokens(name);
  if (parts.includes('audit-step')) await compareAuditStep(name);
}
if (parts.includes('agreement')) await checkAgreement();

async function measureDecoding(name: ShapeName): Promise<void> {
  const { runtime, device, name: deviceName } = openBenchDevice(name);
  let last: Recording | undefined;
  const replay = device?.replay.bind(device);
  if (device !== undefined)
    device.replay = (recording) => {
      last = recording;
      replay!(recording);
    };
  const replayMany = (): Promise<void> => {
    for (let count = 0; count < replays; count++) replay!(last!);
    return device!.synchronize();
  };
  const { model } = openRandomTarget(name, runtime);
  await model.prepare();
  const cache = model.createCache();
  const pass = (rows: number) =>
    model.forward({
      tokens: new Int32Array(rows).fill(7),
      cache,
      want: ['argmax'],
      select: Int32Array.of(rows - 1),
    });
  const table = [['context', ...rowCounts.map((rows) => `${rows} rows, median (best, without the host)`)]];
  for (const context of contexts) {
    while (cache.length < context) cache.appendAll((await pass(64)).rows, 64);
    const cells: string[] = [];
    for (const rows of rowCounts) {
      const { medianMs, bestMs } = await time(() => pass(rows), 31, 3);
      const alone = last === undefined ? undefined : (await time(replayMany, 5, 1)).medianMs / replays;
      const others = [bestMs, ...(alone === undefined ? [] : [alone])];
      cells.push(`${medianMs.toFixed(2)} (${others.map((ms) => ms.toFixed(2)).join(', ')}) ms`);
    }
    table.push([String(context), ...cells]);
  }
  printTable(table, `${deviceName}, ${name} shape, one pass`);
  await runtime.dispose();
}

/** Scores of the same tokens, computed one by one and in passes over several rows. */
async function compareRows(name: ShapeName): Promise<void> {
  const { runtime, name: deviceName } = openBenchDevice(name);
  const { model } = openRandomTarget(name, runtime);
  const random = createRandom(2, 'rows');
  const draw = (length: number): Int32Array =>
    Int32Array.from({ length }, () => random.nextInteger(model.configuration.vocabularySize));
  const [context, tokens] = [draw(name === 'tiny' ? 70 : 500), draw(64)];
  const read = async (rows: number): Promise<Float32Array[]> => {
    const cache = model.createCache();
    cache.appendAll((await model.forward({ tokens: context, cache, want: ['argmax'] })).rows, context.length);
    const scores: Float32Array[] = [];
    for (let first = 0; first < tokens.length; first += rows) {
      const next = tokens.slice(first, first + rows);
      const { rows: made, logits } = await model.forward({ tokens: next, cache, want: ['logits'] });
      cache.appendAll(made, next.length);
      const width = logits!.length / next.length;
      next.forEach((_, row) => scores.push(logits!.subarray(row * width, (row + 1) * width)));
    }
    cache.release();
    return scores;
  };
  const alone = await read(1);
  const table = [['rows of a pass', 'rows with other scores', 'other likeliest token', 'largest difference']];
  for (const rows of [1, 2, 5, 8, 13, 32, 64]) {
    const together = await read(rows);
    const largest = together.map((scores, row) => largestDifference(scores, alone[row]!));
    const others = together.filter((scores, row) => argmax(scores) !== argmax(alone[row]!)).length;
    const differing = largest.filter((difference) => difference > 0).length;
    table.push([
      String(rows),
      `${differing} of 64`,
      `${others} of 64`,
      Math.max(...largest).toExponential(1),
    ]);
  }
  printTable(table, `${deviceName}, ${name} shape, scores beside those of one row`);
  await runtime.dispose();
}

function largestDifference(left: Float32Array, right: Float32Array): number {
  return left.reduce((most, value, at) => Math.max(most, Math.abs(value - right[at]!)), 0);
}

/** PyTorch compiles its pass; its tokens stay on the GPU until the last, ours reach the host one by one. */
async function compareTokens(name: ShapeName): Promise<void> {
  const [before, count] = [60, 200];
  const { runtime, device, name: deviceName } = openBenchDevice(name);
  const { model } = openRandomTarget(name, runtime);
  const random = createRandom(3, 'tokens');
  const promptIds = Array.from({ length: before }, () =>
    random.nextInteger(model.configuration.vocabularySize),
  );
  const prefix = await readPrefix(model, { reads: 'tokens', taps: [] }, promptIds.slice(0, -1));
  const request = {
    sampling: { temperature: 0 },
    seed: 0,
    maxNewTokens: count,
    stopIds: [],
    prefix,
    promptIds,
  };
  await compareWithTorch({
    title: `${deviceName}, ${name} shape, ${count} tokens after ${before}, greedy`,
    runtime,
    turns: 5,
    parts: { tokens: () => decodePlain(model, request) },
    script: 'decoding.py',
    settings: { ...sizesOf(model), before, tokens: count, threads: 2, gpu: device !== undefined },
  });
  await runtime.dispose();
}

async function compareAuditStep(name: ShapeName): Promise<void> {
  const count = name === 'tiny' ? 12 : 512;
  const folder = mkdtempSync(join(tmpdir(), 'mistletoe-step-'));
  const { runtime, device, name: deviceName } = openBenchDevice(name);
  try {
    const target = openRandomTarget(name, runtime);
    const head = writeRandomEagle3(join(folder, 'head'), shapes[name]);
    const drafter = await loadDrafter(head, { target: target.model, cacheFolder: join(folder, 'cache') });
    const models = { target: target.model, drafter };
    const prompt = await makeRandomPrompt(target.model, lengths, createRandom(1, 'prompt'));
    const programs = compileSearch(models, createObjective('total-variation', 1), {
      suffixLength: lengths.suffix,
      divergence: 'clean-to-suffixed',
      temperature: 0,
      draftLevels: 1,
    });
    const state = await readPromptState(models, prompt.beforeIds);
    const scorer = new Scorer(target, models, programs, prompt, state);
    let base: number[];
    let edits: Candidate[];
    await compareWithTorch({
      title: `${deviceName}, ${name} shape, audit step with ${count} candidates`,
      runtime,
      turns: 9,
      parts: {
        gradient: () => scorer.differentiate(drawSuffix(target)),
        candidates() {
          base = drawSuffix(target);
          edits = drawEdits(target, base, count);
          return Promise.resolve();
        },
        scoring: () => scorer.score(base, edits),
      },
      whole: 'step',
      script: 'audit_step.py',
      settings: {
        ...sizesOf(target.model),
        before: lengths.prompt,
        suffix: lengths.suffix,
        after: lengths.tail,
        window: lengths.window,
        candidates: count,
        drafter: 'eagle3',
        threads: 2,
        gpu: device !== undefined,
      },
    });
    await programs.dispose();
  } finally {
    await runtime.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

function drawSuffix({ model }: Target): number[] {
  return Array.from({ length: lengths.suffix }, () =>
    Math.floor(Math.random() * model.configuration.vocabularySize),
  );
}

/** Candidates that differ from the suffix in one token. */
function drawEdits(target: Target, base: readonly number[], count: number): Candidate[] {
  return Array.from({ length: count }, () => {
    const first = Math.floor(Math.random() * base.length);
    return { suffixIds: base.with(first, drawSuffix(target)[0]!), first };
  });
}
