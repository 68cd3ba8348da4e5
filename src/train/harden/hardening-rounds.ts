/**
 * The rounds of one role: search suffixes against the current drafter, let the target answer after them, train on
 * these texts mixed with clean ones. A finished round has a round.json.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as z from '../../core/schema.js';
import { makeFolderBelow } from '../../core/durable-files.js';
import { MistletoeError } from '../../core/errors.js';
import { createRandom } from '../../core/random.js';
import { configFile } from '../../runs/run-units.js';
import { explainFailure, lostFolder, readIfThere, writeAtomically } from '../../runs/run-writes.js';
import type { UnitExecutor } from '../../runs/unit.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import { planBatches } from '../data/batches.js';
import type { Conversation } from '../data/conversations.js';
import { type Example, refuseUnknownTokens } from '../data/examples.js';
import type { ReadyRun, TrainingTexts } from '../training-run.js';
import { trainDrafter } from '../loop/train-drafter.js';
import type { LogLine } from '../loop/training-state.js';
import { findLengths } from '../train-run.js';
import type { HardenRequest } from './harden-request.js';
import { roundSchema, type RoundRecord, type TrainedRole } from './hardening-result.js';
import { searchSettings } from './hardening-settings.js';
import type { HuntInput, SuffixedPrompt } from './suffix-hunt.js';
import { HuntWorker, attackedDrafter, roundFolder } from './suffix-hunt.js';
import {
  createSuffixedExamples,
  huntHere,
  huntSuffixes,
  mixExamples,
  spreadSuffixes,
} from './suffixed-texts.js';

/** The first user message of each training conversation, shuffled. */
export function listPrompts(
  conversations: readonly Conversation[],
  training: readonly Example[],
  seed: number,
): readonly Prompt[] {
  const trained = new Set(training.map(({ id, conversationId = id }) => conversationId));
  const prompts = conversations.flatMap(({ id, messages }): Prompt[] => {
    const asked = messages.find(({ role }) => role === 'user')?.content;
    return asked !== undefined && trained.has(id) ? [{ id, text: asked, turns: [asked] }] : [];
  });
  createRandom(seed, 'hardening prompts').shuffle(prompts);
  return prompts;
}

/** Starts again from the beginning if there are too few. */
export function takeRound<Item>(prompts: readonly Item[], round: number, count: number): readonly Item[] {
  const taken = Math.min(count, prompts.length);
  return Array.from({ length: taken }, (_, place) => prompts[(round * taken + place) % prompts.length]!);
}

export interface RoundEvents {
  /** Before the searches and before the training of a round; `done` includes earlier starts. */
  readonly onPhase?:
    | ((place: RoundPlace, phase: 'search' | 'train', done: number, total: number) => void)
    | undefined;
  readonly onHunt?:
    | ((place: RoundPlace, found: SuffixedPrompt, done: number, total: number) => void)
    | undefined;
  readonly onLine?: ((place: RoundPlace, line: LogLine) => void) | undefined;
  readonly onNotice?: ((text: string) => void) | undefined;
}

export interface RoundPlace {
  readonly role: TrainedRole;
  /** From 1. */
  readonly round: number;
  readonly rounds: number;
}

export interface RoundsWork extends Pick<ReadyRun<HardenRequest>, 'request' | 'target' | 'cache'> {
  readonly role: TrainedRole;
  readonly folder: string;
  readonly texts: TrainingTexts;
  readonly prompts: readonly Prompt[];
  /** Workers for the searches. */
  readonly pool?: UnitExecutor<HuntInput> | undefined;
  readonly events: RoundEvents;
  readonly signal?: AbortSignal | undefined;
}

export type FinishedRounds = Awaited<ReturnType<typeof hardenRounds>>;

export async function hardenRounds(work: RoundsWork) {
  const { role, request, folder, signal } = work;
  const { rounds: count, replayRounds, suffixedShare, spread, seed } = request.hardening;
  const { vocabularySize } = work.target.model.configuration;
  const records: RoundRecord[] = [];
  const suffixed: (readonly Example[])[] = []; // [round]
  let [searchMs, trainingMs] = [0, 0];
  for (let round = 0; round < count; round++) {
    signal?.throwIfAborted();
    const drafter = attackedDrafter(request, folder, role, round);
    const place = roundFolder(folder, role, round + 1);
    // Otherwise a folder deleted during the run would be created again without its contents.
    if (!existsSync(join(folder, configFile))) throw lostFolder(join(folder, role), undefined);
    explainFailure(place, 'harden', () => {
      makeFolderBelow(folder, place);
    });
    const found = await attack(work, round, place);
    const { maxTokens } = request.training;
    const examples = [
      ...createSuffixedExamples(found, { round, maxTokens }),
      ...spreadSuffixes(found, work.texts.training, { round, maxTokens, count: spread, seed }),
    ];
    suffixed.push(refuseUnknownTokens(examples, vocabularySize, join(place, 'suffixes.jsonl')));
    const mixed = mixExamples(work.texts.training, suffixed.slice(-replayRounds).flat(), suffixedShare);
    const finished = readFinished(place) ?? (await train(work, round, drafter, place, found, mixed));
    records.push(finished.record);
    searchMs += found.reduce((sum, { elapsedMs }) => sum + elapsedMs, 0);
    trainingMs += finished.trainingMs;
  }
  const drafter = attackedDrafter(request, folder, role, count);
  return { drafter, rounds: records, searchMs, trainingMs };
}

async function attack(work: RoundsWork, round: number, place: string): Promise<readonly SuffixedPrompt[]> {
  const { role, request, events, signal } = work;
  if (role === 'clean') return [];
  const { rounds, promptsPerRound } = request.hardening;
  const at: RoundPlace = { role, round: round + 1, rounds };
  const worker = new HuntWorker(request, work.folder, work.target, work.cache);
  try {
    const found = await huntSuffixes({
      request,
      role,
      round,
      signal,
      prompts: takeRound(work.prompts, round, promptsPerRound),
      executor: work.pool ?? huntHere((input) => worker.run(input, signal)),
      file: join(place, 'suffixes.jsonl'),
      onStart: (done, total) => events.onPhase?.(at, 'search', done, total),
      onPrompt: (line, done, total) => events.onHunt?.(at, line, done, total),
    });
    if (found.every(({ texts }) => texts.length === 0)) reportNothingFound(work, round, found);
    return found;
  } finally {
    await worker.dispose();
  }
}

/** Fails in the first round, which would have nothing to train on; later rounds reuse earlier suffixes. */
function reportNothingFound(
  { role, events }: RoundsWork,
  round: number,
  found: readonly SuffixedPrompt[],
): void {
  const reason = found[0]?.skipped ?? 'there is no prompt to attack.';
  const sentence = `None of the ${found.length} prompts of round ${round + 1} gave a suffix; of the first: ${reason}`;
  // A baseline is then trained on clean texts, so hours of hardening are not lost.
  if (round === 0 && role === 'hardened') {
    throw new MistletoeError('incomplete', sentence, {
      hint: 'Give data with longer answers, or search longer or in wider bounds (--search-steps, --epsilon); then begin a new run.',
    });
  }
  events.onNotice?.(sentence);
}

async function train(
  { role, request, target, texts, cache, events, signal }: RoundsWork,
  round: number,
  drafter: string,
  place: string,
  found: readonly SuffixedPrompt[],
  mixed: readonly Example[],
): Promise<FinishedRound> {
  const { training, hardening, audit } = request;
  const at: RoundPlace = { role, round: round + 1, rounds: hardening.rounds };
  const seed = training.seed + round;
  const trained = await trainDrafter({
    target,
    start: drafter,
    folder: place,
    cache,
    signal,
    validation: texts.validation,
    settings: { ...training, seed },
    plan: planBatches(mixed, { ...training, seed }),
    onStart: ({ update }) => events.onPhase?.(at, 'train', update, training.steps),
    onLine: (line) => events.onLine?.(at, line),
  });
  if (trained.ended === 'interrupted') signal?.throwIfAborted();
  const { update: updates, elapsedMs: trainingMs } = trained.progress;
  const searchSteps = role === 'hardened' ? searchSettings(hardening, audit.settings, round, 0).steps : 0;
  const clean = findLengths(trained.log);
  const record = {
    ...describeFound(found),
    searchSteps,
    updates,
    cleanBefore: clean?.first.length ?? null,
    cleanAfter: clean?.last.length ?? null,
  };
  const finished = finishedSchema.parse({ record, trainingMs }); // keys in the order in which they are read back
  writeAtomically(join(place, finishedFile), `${JSON.stringify(finished, null, 1)}\n`, 'harden');
  return finished;
}

function describeFound(
  found: readonly SuffixedPrompt[],
): Pick<RoundRecord, 'prompts' | 'found' | 'suffixes' | 'attackedLength'> {
  const texts = found.flatMap((line) => line.texts);
  const lengths = texts.flatMap(({ length }) => length ?? []);
  const sum = lengths.reduce((total, length) => total + length, 0);
  return {
    prompts: found.length,
    found: found.filter((line) => line.texts.length > 0).length,
    suffixes: texts.length,
    attackedLength: lengths.length === 0 ? null : sum / lengths.length,
  };
}

const finishedFile = 'round.json';
const finishedSchema = z.strictObject({ record: roundSchema, trainingMs: z.number() });
type FinishedRound = z.infer<typeof finishedSchema>;

/** An unreadable round is trained again, to the same drafter. */
function readFinished(place: string): FinishedRound | undefined {
  const text = readIfThere(join(place, finishedFile));
  if (text === undefined) return undefined;
  try {
    return finishedSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
