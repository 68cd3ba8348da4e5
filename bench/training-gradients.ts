/**
 * Losses, gradients and updates of all drafting systems against PyTorch's, on two short texts: questions of the bundled
 * prompts with the target's own answers. Every difference must stay below 1e-3.
 * Options: [--write]   writes PyTorch's values to test/golden/training.json
 */
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  bundledDrafterFolder,
  bundledDrafters,
  bundledPrompts,
  bundledTarget,
  packageRoot,
} from '../src/core/package-files.js';
import { type Target, openTarget } from '../src/decode/target.js';
import { generateText } from '../src/decode/generate.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { adamDefaults } from '../src/train/loop/adamw.js';
import { readConversations } from '../src/train/data/conversations.js';
import { defaultSettings } from '../src/train/settings.js';
import type { StepRecord, StepSettings } from '../test/support/training-steps.js';
import { compareSteps, loadApprentice, recordSteps, wholeRows } from '../test/support/training-steps.js';
import { printTable } from './stopwatch.js';
import { startTorch } from './torch-process.js';

const threads = 2;
/** Tokens of the texts: the shorter one is padded. */
const lengths = [48, 41];
const allowed = 1e-3;

const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const texts = await writeTexts(target);
const shape = [lengths.length, lengths[0]!] as const;
const batch = {
  tokens: Int32Array.from(texts.tokens.flat()),
  weights: Float32Array.from(texts.weights.flat()),
  shape,
  texts: wholeRows(shape),
};

const golden = new Map<string, StepRecord & { readonly settings: StepSettings }>();
const rows = [['system', 'loss', "PyTorch's", 'levels', 'norms', 'gradients', 'updated weights']];
let version = '';
let isWithin = true;
for (const name of bundledDrafters) {
  const apprentice = await loadApprentice(bundledDrafterFolder(name), target.model);
  const { rate, weightDecay, clip, ...usual } = defaultSettings(apprentice.drafter);
  const settings: StepSettings = {
    // Noise is drawn, and two libraries draw differently.
    objective: { ...usual, noise: 0 },
    adam: { ...adamDefaults, weightDecay, clip, rate },
  };
  const torch = await startTorch('training.py', {
    models: dirname(bundledTarget),
    name,
    threads,
    ...texts,
    ...settings,
  });
  if (torch === undefined) throw new Error('PyTorch did not run.');
  const { record: expected } = await torch.run<{ record: StepRecord }>('record');
  torch.end();
  ({ version } = torch);
  golden.set(name, { settings, ...expected });
  const own = await recordSteps(target.model, apprentice, batch, settings, placesOf(expected));
  const differences = compareSteps(own, expected, settings);
  isWithin &&= Object.values(differences).every((difference) => difference < allowed);
  const { levels, norms, entries, weights } = differences;
  const shown = [levels, norms, entries, weights].map((difference) => difference.toExponential(1));
  rows.push([name, own.loss.toFixed(4), expected.loss.toFixed(4), ...shown]);
}
printTable(rows, `PyTorch ${version}; largest relative differences, allowed ${allowed}`);
await runtime.dispose();
if (!isWithin) process.exitCode = 1;
else if (process.argv.includes('--write')) writeGolden();

interface Texts {
  readonly tokens: readonly (readonly number[])[]; // [text][position]
  /** 1 where a token is learnt. */
  readonly weights: readonly (readonly number[])[];
}

async function writeTexts(target: Target): Promise<Texts> {
  const tokens: number[][] = [];
  const weights: number[][] = [];
  for (const { messages } of await readConversations(bundledPrompts)) {
    const length = lengths[tokens.length];
    if (length === undefined) break;
    const answered = await generateText(target, messages, { maxNewTokens: length });
    const { promptTokenIds, tokenIds } = answered;
    // A short question with a long answer leaves much to learn.
    if (promptTokenIds.length > length / 2 || promptTokenIds.length + tokenIds.length < length) continue;
    const padding = Array.from({ length: lengths[0]! - length }, () => 0);
    tokens.push([...[...promptTokenIds, ...tokenIds].slice(0, length), ...padding]);
    weights.push(
      tokens.at(-1)!.map((_, place) => (place < promptTokenIds.length || place >= length ? 0 : 1)),
    );
  }
  return { tokens, weights };
}

function placesOf({ tensors }: StepRecord): Record<string, number[]> {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, { entries }]) => [name, entries.map(([place]) => place)]),
  );
}

/** A line for each system's head and for each tensor, so that a change of it can be read. */
function writeGolden(): void {
  const list = (pairs: readonly (readonly [string, string])[]): string =>
    pairs.map(([name, value]) => `${JSON.stringify(name)}: ${value}`).join(',\n');
  const systems = [...golden].map(([name, { tensors, ...record }]) => {
    const lines = Object.entries(tensors).map(([tensor, steps]) => [tensor, JSON.stringify(steps)] as const);
    return [name, `${JSON.stringify(record).slice(0, -1)}, "tensors": {\n${list(lines)}\n}}`] as const;
  });
  const file = join(packageRoot, 'test/golden/training.json');
  const whole = [
    ['version', JSON.stringify(version)],
    ['tokens', JSON.stringify(texts.tokens)],
    ['weights', JSON.stringify(texts.weights)],
    ['systems', `{\n${list(systems)}\n}`],
  ] as const;
  writeFileSync(file, `{\n${list(whole)}\n}\n`);
  console.log(`\nwritten: ${file}`);
}
