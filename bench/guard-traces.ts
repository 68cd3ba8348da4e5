/**
 * Steps of benign and of attacked requests, for benches of the guard. Decoding takes minutes and looking at steps takes
 * seconds, so the steps are kept as JSONL under out/guard-traces, one file for each drafter, and only what is missing is
 * decoded.
 *
 * Benign prompts are those of the three sets, the bundled ones, and some training questions where the folder has them.
 */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BundledDrafter } from '../src/core/package-files.js';
import {
  bundledDrafterFolder,
  bundledPrompts,
  bundledTarget,
  packageRoot,
} from '../src/core/package-files.js';
import { Engine } from '../src/decode/engine.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/generate.js';
import { type Target, openTarget } from '../src/decode/target.js';
import { requestFor } from '../src/decode/generate.js';
import { resolvePolicy } from '../src/draft/tree/policy.js';
import { loadDrafter } from '../src/draft/systems.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { promptFolder, promptSets } from './prompt-sets.js';

export const draftLength = 4;
const newTokens = 128;
const traceFolder = join(packageRoot, 'out/guard-traces');

export interface TracePlan {
  /** Unique among the requests of a drafter. */
  readonly id: string;
  readonly prompt: string;
  readonly set: string;
  readonly kind: 'benign' | 'same-answer' | 'slow-answer';
  /** The drafter that the suffix was made for; null for benign prompts. */
  readonly madeFor: BundledDrafter | null;
  readonly text: string;
}

export interface Trace extends Omit<TracePlan, 'text'> {
  readonly promptTokens: number;
  readonly tokens: number;
  /** [step] */
  readonly accepted: readonly number[];
  readonly proposed: readonly number[];
}

interface Attack {
  readonly drafter: BundledDrafter;
  readonly prompt: string;
  readonly kind: 'same-answer' | 'slow-answer';
  readonly suffix: string;
}

const attacks = readLines(join(packageRoot, 'bench/guard-attacks.jsonl')) as readonly Attack[];

/** The same prompts for every drafter, with so many of the training questions. */
export async function planBenign(trainingQuestions: number): Promise<readonly TracePlan[]> {
  const read = async (set: string, source: string): Promise<TracePlan[]> => {
    const prompts = await loadPrompts(source, { folder: promptFolder });
    return prompts.map(({ id, text }) => {
      const prompt = `${set}-${id}`;
      return { kind: 'benign', madeFor: null, id: prompt, prompt, set, text };
    });
  };
  const sets = await Promise.all(promptSets.map((set) => read(set, set)));
  const training = join(promptFolder, 'train.jsonl');
  const questions = existsSync(training) ? await read('train', training) : [];
  return [
    ...sets.flat(),
    ...(await read('bundled', bundledPrompts)),
    ...questions.slice(0, trainingQuestions),
  ];
}

/** The suffixes that were made for one drafter, behind their prompts. */
export function planAttacks(benign: readonly TracePlan[], madeFor: BundledDrafter): readonly TracePlan[] {
  const texts = new Map(benign.map((plan) => [plan.prompt, plan]));
  return attacks
    .filter(({ drafter }) => drafter === madeFor)
    .flatMap(({ prompt, kind, suffix }): TracePlan[] => {
      const clean = texts.get(prompt);
      if (clean === undefined) return [];
      const id = `${prompt}+${kind}-${madeFor}`;
      return [{ ...{ id, prompt, kind, madeFor }, set: clean.set, text: clean.text + suffix }];
    });
}

/** Reads what is kept and decodes the rest. */
export async function traceAll(
  drafter: BundledDrafter,
  plans: readonly TracePlan[],
): Promise<readonly Trace[]> {
  mkdirSync(traceFolder, { recursive: true });
  const path = join(traceFolder, `${drafter}.jsonl`);
  const kept = new Map(
    (existsSync(path) ? (readLines(path) as readonly Trace[]) : []).map((trace) => [trace.id, trace]),
  );
  const missing = plans.filter(({ id }) => !kept.has(id));
  if (missing.length > 0) {
    process.stderr.write(`${drafter}: ${missing.length} requests to decode\n`);
    await decodeTraces(drafter, missing, async (trace) => {
      kept.set(trace.id, trace);
      await appendFile(path, `${JSON.stringify(trace)}\n`);
    });
  }
  return plans.map(({ id }) => kept.get(id)!);
}

async function decodeTraces(
  name: BundledDrafter,
  plans: readonly TracePlan[],
  keep: (trace: Trace) => Promise<void>,
): Promise<void> {
  const runtime = createOnnxRuntime({ threads: 2 });
  const target: Target = await openTarget(bundledTarget, { runtime });
  const drafter = await loadDrafter(bundledDrafterFolder(name), {
    target: target.model,
    tokenizer: target.tokenizer,
  });
  const policy = always(resolvePolicy({ kind: 'chain', length: draftLength }, drafter));
  const engine = new Engine({ concurrency: 8 });
  await Promise.all(
    plans.map(async ({ text, ...plan }) => {
      const request = await requestFor(target, text, { maxNewTokens: newTokens });
      const { steps, tokenIds } = await engine.run(() =>
        decodeSpeculative(target.model, drafter, { ...request, policy, mustDraft: true, engine }),
      );
      await keep({
        ...plan,
        promptTokens: request.promptIds.length,
        tokens: tokenIds.length,
        accepted: steps.map(({ accepted }) => accepted),
        proposed: steps.map(({ proposed }) => proposed),
      });
    }),
  );
  await runtime.dispose();
}

function readLines(path: string): readonly unknown[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);
}
