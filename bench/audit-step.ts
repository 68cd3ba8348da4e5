/**
 * One step of the audit's search, split into gradient, candidates and scoring, taking turns with the same step (model
 * shapes, candidates, lengths) in eager PyTorch with a cached prompt, as nanoGCG does it.
 * Options: [CANDIDATES]
 */
import { resolve } from 'node:path';
import { type AuditPrompt, preparePrompt } from '../src/audit/arms/audit-prompt.js';
import { proposeCandidates } from '../src/audit/search/candidates.js';
import { drawRandomSuffix, listAllowedTokens } from '../src/audit/arms/controls.js';
import { createObjective } from '../src/audit/search/objectives.js';
import { readPromptState } from '../src/audit/search/prompt-state.js';
import { Scorer } from '../src/audit/search/scoring.js';
import { compileSearch } from '../src/audit/search/search-programs.js';
import { createRandom } from '../src/core/random.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/systems.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { type Side, describeProducts, formatSpeedup, measurePeaks } from './comparison.js';
import { printNote, printTable } from './stopwatch.js';
import { type TorchProcess, startTorch } from './torch-process.js';

const threads = 2;
const candidates = Number(process.argv[2] ?? 256);
const suffixLength = 20;
const window = 20;
const turns = 3;

const runtime = createOnnxRuntime({ threads });
const own: Side = { name: 'Mistletoe', gigaflops: (await measurePeaks(runtime)).gigaflops };
const target = await openTarget(bundledTarget, { runtime });
const drafter = await loadDrafter(resolve(bundledTarget, '../eagle'), { target: target.model });
const models = { target: target.model, drafter };
const programs = compileSearch(models, createObjective('total-variation', 1), {
  suffixLength,
  divergence: 'clean-to-suffixed',
  temperature: 0,
  draftLevels: 1, // as on PyTorch's side
});
const allowed = listAllowedTokens(target.tokenizer, target.model.configuration.vocabularySize, {
  allowNonAscii: false,
});
const question =
  'A farmer has 12 cows, 7 sheep and 3 horses. He sells half of the cows and buys 5 more sheep. How many animals does he have now? Explain your steps.';
const background =
  'He keeps the cows in a red barn behind the hill, where they have enough hay for the winter. ';

interface StepTimes {
  readonly gradient: number;
  readonly proposing: number;
  readonly scoring: number;
}

const rows = [['prompt', 'step', 'total', 'gradient', 'candidates', 'scoring', 'speed against PyTorch']];
for (const repeats of [0, 7]) await compareSteps(background.repeat(repeats) + question);
printTable(
  rows,
  `${candidates} candidates, suffix ${suffixLength}, window ${window}, ${threads} threads, best of ${turns} turns`,
);
printNote(`Peak memory of Mistletoe's process: ${(process.resourceUsage().maxRSS / 1024).toFixed(0)} MB.`);
await runtime.dispose();

async function compareSteps(text: string): Promise<void> {
  const prompt = await preparePrompt(
    target,
    { id: 'bench', text, turns: [text] },
    { window, shortestAnswer: window, suffixLength, maxNewTokens: 32, temperature: 0, chat: true, seed: 0 },
  );
  const runStep = await createStep(prompt);
  const torch = await startTorch('audit_step.py', describeSizes(prompt));
  const [ours, theirs]: [StepTimes[], StepTimes[]] = [[], []];
  // The first turn warms both sides up.
  for (let turn = 0; turn <= turns; turn++) {
    const step = await runStep();
    const other = torch && (await runTorchStep(torch));
    if (turn === 0) continue;
    ours.push(step);
    if (other !== undefined) theirs.push(other);
  }
  torch?.end();
  const length = `${prompt.beforeIds.length} tokens`;
  const best = findBest(ours);
  rows.push([length, 'Mistletoe', ...cellsOf(best), '']);
  if (torch === undefined) return;
  const other = findBest(theirs);
  const ratio = formatSpeedup(own, totalOf(best), torch, totalOf(other));
  rows.push([length, `${torch.name}, prefix cache`, ...cellsOf(other), ratio]);
  printNote(describeProducts(own, torch));
}

async function createStep(prompt: AuditPrompt): Promise<() => Promise<StepTimes>> {
  const state = await readPromptState(models, prompt.beforeIds);
  const scorer = new Scorer(target, models, programs, prompt, state);
  const random = createRandom(0, 'bench');
  const base = await drawRandomSuffix(target, prompt, allowed, suffixLength, random);
  return async () => {
    const start = performance.now();
    const { promising } = await scorer.rankTokens(
      base,
      { kind: 'degrade', projection: { kind: 'direction', weight: 2 } },
      { allowed, count: 256 },
    );
    const differentiated = performance.now();
    const proposed = proposeCandidates(base, promising, { candidates, changes: [1] }, random);
    await scorer.keepRoundTrips(proposed.map(({ suffixIds }) => suffixIds));
    const ready = performance.now();
    await scorer.score(base, proposed);
    const end = performance.now();
    return { gradient: differentiated - start, proposing: ready - differentiated, scoring: end - ready };
  };
}

async function runTorchStep(torch: TorchProcess): Promise<StepTimes> {
  const gradient = await torch.run<{ ms: number }>('gradient');
  const scoring = await torch.run<{ ms: number }>('scoring');
  return { gradient: gradient.ms, proposing: 0, scoring: scoring.ms };
}

function describeSizes(prompt: AuditPrompt) {
  const { configuration } = target.model;
  return {
    variant: 'prefix-cache',
    hidden: configuration.hiddenSize,
    inner: configuration.intermediateSize,
    layers: configuration.layerCount,
    heads: configuration.headCount,
    vocabulary: configuration.vocabularySize,
    candidates,
    before: prompt.beforeIds.length,
    suffix: suffixLength,
    after: prompt.afterIds.length,
    window,
    threads,
  };
}

function findBest(steps: readonly StepTimes[]): StepTimes {
  const best = (part: keyof StepTimes): number => Math.min(...steps.map((step) => step[part]));
  return { gradient: best('gradient'), proposing: best('proposing'), scoring: best('scoring') };
}

function totalOf({ gradient, proposing, scoring }: StepTimes): number {
  return gradient + proposing + scoring;
}

function cellsOf(step: StepTimes): string[] {
  const { gradient, proposing, scoring } = step;
  return [totalOf(step), gradient, proposing, scoring].map((ms) => `${(ms / 1000).toFixed(2)} s`);
}
