/**
 * Folders of runs that train and harden, as strangers hand them on. A training run that was stopped half-way is damaged in
 * its answers, state or log, and goes on to its end or is refused. Of config.json it is read whether it is a run: what one
 * asks for may well take for ever. Suffixes of a round are those that were written first.
 */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { createOnnxRuntime } from '../../../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../../../src/runtime/program.js';
import { inlinePrompt } from '../../../src/text/prompts/prompt-set.js';
import { createHardenRequest, hardenRequestSchema } from '../../../src/train/harden/harden-request.js';
import type { SuffixedPrompt } from '../../../src/train/harden/suffix-hunt.js';
import { readFound } from '../../../src/train/harden/suffixed-texts.js';
import { openTrainingRun } from '../../../src/runs/resumed-run.js';
import type { TrainingProgress } from '../../../src/train/loop/training-state.js';
import { loadState, saveState } from '../../../src/train/loop/training-state.js';
import { createTrainRequest, requestSchema } from '../../../src/train/train-request.js';
import { resumeTraining, startTraining } from '../../../src/train/train-run.js';
import { tiniest, writeDecoder, writeLetterTokenizer } from '../../support/tiny-checkpoints.js';
import { drafterVariants } from '../../support/tiny-drafters.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { Attempt, FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

interface Models {
  readonly target: string;
  readonly drafter: string;
  readonly data: string;
  readonly cacheFolder: string;
  readonly runtime: Runtime;
}

function writeModels(folder: string): Models {
  const target = writeDecoder(join(folder, 'target'), tiniest);
  writeLetterTokenizer(target, tiniest);
  const variant = drafterVariants.find(({ name }) => name === 'draft model')!;
  const data = join(folder, 'data.jsonl');
  const letters = Array.from({ length: tiniest.vocabularySize }, (_, token) =>
    String.fromCharCode(97 + token),
  );
  writeFileSync(data, letters.map((letter) => `${JSON.stringify(letter.repeat(3))}\n`).join(''));
  return {
    ...{ target, data, drafter: variant.write(join(folder, 'drafter'), tiniest) },
    ...{ cacheFolder: join(folder, 'cache'), runtime: createOnnxRuntime({ threads: 1 }) },
  };
}

const steps = 4;

/** Stopped behind its second update. */
async function beginTraining(folder: string, models: Models): Promise<void> {
  const { target, drafter: from, data, cacheFolder, runtime } = models;
  const request = await createTrainRequest({
    ...{ target, from, data, cacheFolder, threads: 1, device: 'cpu' },
    settings: {
      ...{ steps, maxNewTokens: 6, batchTokens: 64, validation: 0.2, chain: 2, depth: 1 },
      ...{ validateEvery: 2, saveEvery: 1 },
    },
  });
  const abort = new AbortController();
  const events = {
    onLine: ({ update }: { readonly update: number }) => {
      if (update === 2) abort.abort();
    },
  };
  const outcome = await startTraining(folder, request, {
    runtime,
    cacheFolder,
    events,
    signal: abort.signal,
  });
  ensure(outcome.status === 'interrupted', 'the run was not stopped');
}

const foundLines: readonly SuffixedPrompt[] = ['p1', 'p2', 'p3'].map((prompt) => ({
  ...{ prompt, objective: 'margin', suffixLength: 4, skipped: null, elapsedMs: 1 },
  texts: [{ promptIds: [1, 2], answerIds: [3], length: 1.5 }],
}));

function damageLines(path: string, random: Random): void {
  const lines = readFileSync(path, 'utf8').split('\n');
  const place = random.nextInteger(lines.length - 1);
  switch (random.nextInteger(4)) {
    case 0:
      lines.splice(place, 1);
      break;
    case 1:
      lines.splice(place, 0, lines[place]!);
      break;
    default:
      lines[place] = mutateJson(JSON.parse(lines[place]!), random);
  }
  writeFileSync(path, lines.join('\n'));
}

const oddTokens = [-1, 1.5, tiniest.vocabularySize, 2 ** 31 - 1, 2 ** 40];

/** A state that can be read, of another drafter or another run. */
async function changeState(path: string, random: Random): Promise<void> {
  const { progress, values } = (await loadState(path))!;
  const changed = new Map(values);
  const name = pick(random, [...values.keys()]);
  switch (random.nextInteger(4)) {
    case 0:
      changed.delete(name);
      break;
    case 1:
      changed.set(name, values.get(name)!.slice(1));
      break;
    case 2:
      changed.set(`${name}x`, values.get(name)!);
      break;
    default:
      changed.set(
        name,
        values.get(name)!.map(() => pick(random, [0, 1e30, NaN])),
      );
  }
  const odd =
    random.nextInteger(2) === 0 ? progress : (JSON.parse(oddProgress(progress, random)) as typeof progress);
  await saveState(path, { progress: odd, values: random.nextInteger(3) === 0 ? values : changed });
}

const oddProgress = (progress: TrainingProgress, random: Random): string =>
  JSON.stringify(
    pick(random, [
      ...[{ ...progress, update: 10 ** 6 }, { ...progress, update: 0 }, { ...progress, update: -1 }, null],
      ...[
        { ...progress, best: { update: 9, length: 1e300 } },
        { ...progress, more: 1 },
        { ...progress, sinceBest: 99 },
      ],
    ]),
  );

/** Answers that are well-formed, of tokens that the target does not have or of other lengths. */
function changeAnswers(path: string, random: Random): void {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  const place = random.nextInteger(lines.length);
  const line = JSON.parse(lines[place]!) as { turns: { kept: number; prompt: number[]; answer: number[] }[] };
  const [turn] = line.turns;
  const list = pick(random, [turn!.prompt, turn!.answer]);
  if (random.nextInteger(3) === 0) list.length = 0;
  else list[random.nextInteger(list.length + 1)] = pick(random, oddTokens);
  if (random.nextInteger(4) === 0) list.push(...new Array<number>(300).fill(1));
  lines[place] = JSON.stringify(line);
  writeFileSync(path, `${lines.join('\n')}\n`);
}

async function damage(path: string, random: Random): Promise<void> {
  const isMeaningful = random.nextInteger(2) === 0;
  if (isMeaningful && path.endsWith('state.safetensors')) await changeState(path, random);
  else if (isMeaningful && path.endsWith('answers.jsonl')) changeAnswers(path, random);
  else if (path.endsWith('.safetensors') || random.nextInteger(3) === 0)
    writeFileSync(path, mutateBytes(readFileSync(path), random));
  else if (path.endsWith('.jsonl')) damageLines(path, random);
  else writeFileSync(path, mutateJson(JSON.parse(readFileSync(path, 'utf8')), random));
}

const files = [
  'config.json',
  'answers.jsonl',
  'answers.jsonl',
  'state.safetensors',
  'log.jsonl',
  'harden',
  'found',
];

async function open(folder: string): Promise<Attempt> {
  const models = writeModels(folder);
  const { target, drafter, data, cacheFolder, runtime } = models;
  const whole = join(folder, 'whole');
  await beginTraining(whole, models);
  const hardening = await createHardenRequest({
    ...{ target, drafter, data, cacheFolder, prompts: [inlinePrompt('abab')], threads: 1, device: 'cpu' },
    ...{ training: { chain: 2, depth: 1 }, baselines: ['random'] },
  });
  const copy = join(folder, 'copy');
  return async (seed) => {
    const random = createRandom(seed, 'training-run');
    rmSync(copy, { recursive: true, force: true });
    cpSync(whole, copy, { recursive: true });
    const file = pick(random, files);
    if (file === 'found') {
      const path = join(copy, 'suffixes.jsonl');
      writeFileSync(path, foundLines.map((line) => `${JSON.stringify(line)}\n`).join(''));
      await damage(path, random);
      const found = readFound(path);
      ensure(
        JSON.stringify(readFound(path)) === JSON.stringify(found),
        'the suffixes were read otherwise again',
      );
      return;
    }
    const path = join(copy, file === 'harden' ? 'config.json' : file);
    if (file === 'harden') writeFileSync(path, JSON.stringify(hardening));
    await damage(path, random);
    if (file === 'config.json')
      await openTrainingRun(copy, { command: 'train', schema: requestSchema, cacheFolder });
    else if (file === 'harden')
      await openTrainingRun(copy, { command: 'harden', schema: hardenRequestSchema, cacheFolder });
    else {
      const outcome = await resumeTraining(copy, { runtime, cacheFolder });
      ensure(outcome.status === 'complete', `the run ended as ${outcome.status}`);
      ensure(outcome.result.updates === steps, `${outcome.result.updates} updates were made`);
      ensure(readFileSync(join(copy, 'log.jsonl'), 'utf8').endsWith('\n'), 'the log was left torn');
    }
  };
}

export const trainingRun: FuzzKind = { name: 'training-run', boundedRuns: 30, open };
