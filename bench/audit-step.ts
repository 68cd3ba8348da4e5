/**
 * One step of the audit's search, split into gradient, candidates and scoring; and the same step (model shapes, B,
 * lengths) in eager PyTorch, in the same run, plain and with a cached prompt as nanoGCG does.
 * Run: npm run bench:audit-step [-- CANDIDATES]
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { drawRandomSuffix, listAllowedTokens } from '../src/audit/arms/controls.js';
import type { AuditPrompt } from '../src/audit/arms/audit-prompt.js';
import { preparePrompt } from '../src/audit/arms/audit-prompt.js';
import { proposeCandidates } from '../src/audit/search/candidates.js';
import { createObjective } from '../src/audit/search/objectives.js';
import { readPromptState } from '../src/audit/search/prompt-state.js';
import { Scorer } from '../src/audit/search/scoring.js';
import { compileSearch } from '../src/audit/search/search-programs.js';
import { createRandom } from '../src/core/random.js';
import { bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { describeMachine } from '../src/measure/machine.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { printTable } from './stopwatch.js';

const threads = 2;
const candidates = Number(process.argv[2] ?? 256);
const suffixLength = 20;
const window = 20;
const steps = 3;

const machine = describeMachine();
console.log(
  `${machine.processor} (${machine.architecture}), ${threads} threads, ${candidates} candidates, suffix ${suffixLength}, window ${window}\n`,
);
const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const drafter = await loadDrafter(resolve(bundledTarget, '../eagle'), { target: target.model });
const models = { target: target.model, drafter };
/** One level, as the PyTorch side has it. */
const settings = {
  ...{ suffixLength, divergence: 'clean-to-suffixed' as const, temperature: 0, draftLevels: 1 },
};
const programs = compileSearch(models, createObjective('total-variation', 1), settings);
const allowed = listAllowedTokens(target.tokenizer, target.model.configuration.vocabularySize, {
  allowNonAscii: false,
});

const question =
  'A farmer has 12 cows, 7 sheep and 3 horses. He sells half of the cows and buys 5 more sheep. How many animals does he have now? Explain your steps.';
const background =
  'He keeps the cows in a red barn behind the hill, where they have enough hay for the winter. ';
const rows = [['prompt', 'step', 'total', 'gradient', 'candidates', 'scoring', 'against Mistletoe']];
const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`;
for (const repeats of [0, 7]) rows.push(...(await compareSteps(background.repeat(repeats) + question)));
const memory = process.resourceUsage().maxRSS / 1024;
await runtime.dispose();
printTable(rows);
console.log(`\npeak memory of Mistletoe's process: ${memory.toFixed(0)} MB`);

async function compareSteps(text: string): Promise<string[][]> {
  const prompt = await preparePrompt(
    target,
    { id: 'bench', text, turns: [text] },
    { window, shortestAnswer: window, suffixLength, maxNewTokens: 32, temperature: 0, chat: true, seed: 0 },
  );
  const spent = await timeStep(prompt);
  const total = spent.gradient + spent.proposing + spent.scoring;
  const length = `${prompt.beforeIds.length} tokens`;
  const parts = [spent.gradient, spent.proposing, spent.scoring].map(seconds);
  return [
    [length, 'Mistletoe', seconds(total), ...parts, '1.00'],
    ...(['plain', 'prefix-cache'] as const).map((variant) => [length, ...runTorch(variant, prompt, total)]),
  ];
}

async function timeStep(prompt: AuditPrompt) {
  const scorer = new Scorer(
    target,
    models,
    programs,
    prompt,
    await readPromptState(models, prompt.beforeIds),
  );
  const random = createRandom(0, 'bench');
  const base = await drawRandomSuffix(target, prompt, allowed, suffixLength, random);
  const spent = { gradient: Infinity, proposing: Infinity, scoring: Infinity };
  for (let step = 0; step <= steps; step++) {
    const start = performance.now();
    const { promising } = await scorer.rankTokens(base, { kind: 'up', weight: 2 }, { allowed, count: 256 });
    const differentiated = performance.now();
    const proposed = proposeCandidates(base, promising, { candidates, changes: [1] }, random);
    await scorer.keepRoundTrips(proposed.map(({ suffixIds }) => suffixIds));
    const ready = performance.now();
    await scorer.score(base, proposed);
    const scored = performance.now();
    if (step === 0) continue;
    spent.gradient = Math.min(spent.gradient, differentiated - start);
    spent.proposing = Math.min(spent.proposing, ready - differentiated);
    spent.scoring = Math.min(spent.scoring, scored - ready);
  }
  return spent;
}

function runTorch(variant: 'plain' | 'prefix-cache', prompt: AuditPrompt, total: number): string[] {
  const { hiddenSize, intermediateSize, layerCount, headCount, vocabularySize } = target.model.configuration;
  const sizes = [
    hiddenSize,
    intermediateSize,
    layerCount,
    headCount,
    vocabularySize,
    candidates,
    prompt.beforeIds.length,
    suffixLength,
    prompt.afterIds.length,
    window,
    threads,
  ];
  const script = join(packageRoot, 'bench/torch/audit_step.py');
  const python = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';
  const result = spawnSync(python, [script, variant, ...sizes.map(String)], { encoding: 'utf8' });
  if (result.status !== 0) return [`PyTorch, ${variant}`, 'not installed', '', '', '', ''];
  const torch = JSON.parse(result.stdout) as { version: string; gradientMs: number; scoringMs: number };
  const sum = torch.gradientMs + torch.scoringMs;
  return [
    `PyTorch ${torch.version}, ${variant}`,
    seconds(sum),
    seconds(torch.gradientMs),
    '',
    seconds(torch.scoringMs),
    `${(sum / total).toFixed(2)}x slower`,
  ];
}
