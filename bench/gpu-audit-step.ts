/**
 * One step of the audit's search on a GPU with models of the size that people serve: the gradients of a suffix, and the
 * scores of 512 candidates that change one token each. Random weights in a 7B and a 13B shape, each with an EAGLE-3 head;
 * prompt 64, suffix 20, tail 6, window 20. What each kind of launch of one pass over candidates takes, and the same step in
 * PyTorch (bfloat16, sdpa, the prompt's cache) in the same run.
 * Run: npm run bench:gpu-audit-step [-- SHAPES]
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fillPasses, groupByBeginning, PassRows, roundCopies } from '../src/audit/search/pass-rows.js';
import type { Candidate } from '../src/audit/search/candidates.js';
import { createObjective } from '../src/audit/search/objectives.js';
import { readPromptState } from '../src/audit/search/prompt-state.js';
import { Scorer } from '../src/audit/search/scoring.js';
import { compileSearch } from '../src/audit/search/search-programs.js';
import { describeCause } from '../src/core/errors.js';
import { createRandom } from '../src/core/random.js';
import { packageRoot } from '../src/decode/bundled-models.js';
import type { Target } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { createCudaRuntime } from '../src/runtime/cuda/cuda-runtime.js';
import { CudaDevice } from '../src/runtime/cuda/driver/cuda-device.js';
import { findDevices } from '../src/runtime/cuda/driver/find-devices.js';
import { writeRandomEagle3 } from './gpu-checkpoints.js';
import type { BenchDevice, ShapeName } from './gpu-models.js';
import { chooseShapes, makeRandomPrompt, openBenchDevice, openRandomTarget, shapes } from './gpu-models.js';
import { tabulate, WatchedDevice } from './launch-times.js';
import { median, printTable, time } from './stopwatch.js';

const lengths = { prompt: 64, suffix: 20, tail: 6, window: 20 };
/** Rows of passes whose launches are looked at one by one. */
const watchedRows = [2048];
const batchRows = [1536, 3072, 4096, 8192];

for (const name of chooseShapes(['7B', '13B'])) {
  const candidates = name === 'tiny' ? 12 : 512;
  try {
    const ours = await measure(name, candidates);
    compareWithTorch(name, candidates, ours);
  } catch (cause) {
    console.log(`${name} failed: ${cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)}`);
  }
}

interface StepTimes {
  readonly gradientMs: number;
  readonly scoringMs: number;
}

async function measure(name: ShapeName, count: number): Promise<StepTimes> {
  const folder = mkdtempSync(join(tmpdir(), 'mistletoe-step-'));
  const { runtime, device, name: deviceName, watched } = openWatchedDevice(name);
  const taken = (): string =>
    device === undefined ? '?' : `${((device.totalBytes - device.freeBytes()) / 2 ** 30).toFixed(1)} GiB`;
  try {
    console.log(
      `\n${deviceName}, Node ${process.version}, ${name} shape, random weights, ${count} candidates`,
    );
    const target = openRandomTarget(name, runtime);
    const loadStart = performance.now();
    const head = writeRandomEagle3(join(folder, 'head'), shapes[name]);
    const drafter = await loadDrafter(head, { target: target.model, cacheFolder: join(folder, 'cache') });
    const models = { target: target.model, drafter };
    const prompt = await makeRandomPrompt(target.model, lengths, createRandom(1, 'prompt'));
    const state = await readPromptState(models, prompt.beforeIds);
    const programs = compileSearch(models, createObjective('total-variation', 1), {
      ...{ suffixLength: lengths.suffix, divergence: 'clean-to-suffixed', temperature: 0, draftLevels: 1 },
    });
    const scorerFor = (rowsPerPass?: number): Scorer =>
      new Scorer(
        target,
        models,
        programs,
        prompt,
        state,
        new PassRows(rowsPerPass === undefined ? runtime : { rowsPerPass }, (notice) => {
          console.log(notice);
        }),
      );
    await programs.gradients();
    await programs.scores();
    console.log(`loaded and compiled in ${inSeconds(performance.now() - loadStart)}, ${taken()} taken`);

    const scorer = scorerFor();
    const firstStart = performance.now();
    await scorer.differentiate(drawSuffix(target));
    console.log(`first gradient ${inSeconds(performance.now() - firstStart)}`);
    const gradient = await time(() => scorer.differentiate(drawSuffix(target)), 15, 4);
    console.log(
      `gradient, reads included: median ${inSeconds(gradient.medianMs)}, best ${inSeconds(gradient.bestMs)}`,
    );
    const allowed = Int32Array.from({ length: target.model.configuration.vocabularySize }, (_, id) => id);
    const ranking = await time(
      () => scorer.rankTokens(drawSuffix(target), { kind: 'up', weight: 2 }, { allowed, count: 256 }),
      9,
    );
    console.log(`gradient and ranking of 256 tokens a position: median ${inSeconds(ranking.medianMs)}`);
    const results = [['rows per pass', 'median', 'best', 'first', 'rows', 'TFLOP/s', 'GPU memory']];
    const measured: number[] = [];
    for (const rows of [runtime.rowsPerPass, ...(name === 'tiny' ? [256] : batchRows)]) {
      if (rows === undefined) continue;
      try {
        const { times, firstMs, rowCount } = await timeScoring(target, scorerFor(rows), rows, count);
        measured.push(median(times));
        const flops = rowCount * flopsPerRow(target);
        results.push([
          `${rows}${measured.length === 1 ? ' (usual)' : ''}`,
          ...[median(times), Math.min(...times), firstMs].map(inSeconds),
          ...[String(rowCount), (flops / median(times) / 1e9).toFixed(0), taken()],
        ]);
      } catch (cause) {
        results.push([String(rows), describeCause(cause), '', '', '', '', '']);
      }
    }
    printTable(results);
    if (watched !== undefined) await lookAtPasses(target, watched, scorerFor);
    await programs.dispose();
    return { gradientMs: gradient.medianMs, scoringMs: measured[0] ?? NaN };
  } finally {
    await runtime.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What each kind of launch takes in a pass over the suffix and one over as many candidates as there is room for. */
async function lookAtPasses(
  target: Target,
  watched: WatchedDevice,
  scorerFor: (rowsPerPass: number) => Scorer,
): Promise<void> {
  for (const rows of watchedRows) {
    const base = drawSuffix(target);
    // One pass: what a launch reads of an earlier one is not there any more.
    const { most } = fillPasses(() => Math.floor(rows / rowsBehind(0)))(0);
    const candidates = drawEdits(target, base, most, 0);
    console.log(`\nthe suffix and ${candidates.length} candidates that differ from it in the first token`);
    try {
      const launches = await watched.watch(() => scorerFor(rows).score(base, candidates));
      printTable(await tabulate(watched, launches, 3));
    } catch (cause) {
      console.log(describeCause(cause));
    }
  }
}

async function timeScoring(target: Target, scorer: Scorer, rowsPerPass: number, count: number) {
  const times: number[] = [];
  let firstMs = 0;
  let rowCount = 0;
  for (let round = -2; round < (count < 100 ? 1 : 5); round++) {
    const base = drawSuffix(target);
    const candidates = drawEdits(target, base, count);
    const start = performance.now();
    await scorer.score(base, candidates);
    const spent = performance.now() - start;
    if (round === -2) firstMs = spent;
    if (round >= 0) times.push(spent);
    rowCount = countRows(candidates, rowsPerPass);
  }
  return { times, firstMs, rowCount };
}

/** With the launches of a GPU watched. */
function openWatchedDevice(name: ShapeName): BenchDevice & { readonly watched: WatchedDevice | undefined } {
  if (findDevices().devices.length === 0) return { ...openBenchDevice(name), watched: undefined };
  const watched = new WatchedDevice(CudaDevice.open());
  const { device } = watched;
  const runtime = createCudaRuntime(device, { productType: 'bfloat16' });
  return { runtime, device, name: device.name, watched };
}

function rowsBehind(first: number): number {
  return lengths.suffix - first + lengths.tail + lengths.window;
}

/** Rows that the passes of these candidates have, where passes are full: what lies before an edit is shared. */
function countRows(candidates: readonly Candidate[], rowsPerPass: number): number {
  const sizeOf = fillPasses((first) => Math.floor(rowsPerPass / rowsBehind(first)));
  const groups = groupByBeginning(candidates, sizeOf);
  return groups.reduce(
    (rows, group) => rows + roundCopies(group.length) * rowsBehind(group[0]!.first),
    lengths.suffix,
  );
}

/** Of the target's matrices and of the head's, without attention and without what is as wide as the vocabulary. */
function flopsPerRow({ model: { configuration } }: Target): number {
  const { hiddenSize, intermediateSize, layerCount } = configuration;
  const layer = 4 * hiddenSize ** 2 + 3 * hiddenSize * intermediateSize;
  return 2 * (layerCount * layer + layer + 6 * hiddenSize ** 2);
}

function drawTokens(length: number, vocabularySize: number): number[] {
  return Array.from({ length }, () => Math.floor(Math.random() * vocabularySize));
}

function drawSuffix({ model }: Target): number[] {
  return drawTokens(lengths.suffix, model.configuration.vocabularySize);
}

function drawEdits(
  { model }: Target,
  base: readonly number[],
  count: number,
  chosen?: number, // where all of them differ
): Candidate[] {
  return Array.from({ length: count }, () => {
    const first = chosen ?? Math.floor(Math.random() * base.length);
    const [token] = drawTokens(1, model.configuration.vocabularySize);
    return { suffixIds: base.with(first, token!), first };
  });
}

function compareWithTorch(name: ShapeName, candidates: number, ours: StepTimes): void {
  // Where the build runs apart from its sources, they are where it was started from.
  const places = [packageRoot, process.cwd(), process.env.OLDPWD ?? ''];
  const script = places.map((place) => join(place, 'bench/torch/gpu_audit_step.py')).find(existsSync);
  if (script === undefined) {
    console.log('bench/torch/gpu_audit_step.py was not found: PyTorch is not measured.');
    return;
  }
  const settings = JSON.stringify({ ...shapes[name], ...lengths, candidates });
  const { status, stdout, stderr } = spawnSync('python3', [script, settings], { encoding: 'utf8' });
  if (status !== 0) {
    console.log(`PyTorch was not measured: ${stderr.trim().split('\n').slice(-3).join(' | ')}`);
    return;
  }
  console.log(stdout.trim());
  const torch = JSON.parse(stdout.trim().split('\n').at(-1)!) as StepTimes & { version: string };
  const row = (part: string, ourMs: number, torchMs: number): string[] => [
    part,
    inSeconds(ourMs),
    inSeconds(torchMs),
    `${(torchMs / ourMs).toFixed(2)}x`,
  ];
  const whole = (times: StepTimes): number => times.gradientMs + times.scoringMs;
  printTable([
    [`${name} shape, median`, 'Mistletoe', `PyTorch ${torch.version}`, 'Mistletoe is faster by'],
    row('gradient', ours.gradientMs, torch.gradientMs),
    row('scoring', ours.scoringMs, torch.scoringMs),
    row('step', whole(ours), whole(torch)),
  ]);
}

function inSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(4)} s`;
}
