/**
 * Hardening a drafter, in rounds: search for suffixes against the drafter as it is now, let the target answer behind
 * them, train on these texts mixed with clean ones. Then audit afresh, beside the drafter before and, as the baseline, one
 * that was trained with equal effort on random suffixes. A run is a folder, and everything in it follows from its
 * config.json:
 *
 *   answers.jsonl                  the target's clean answers
 *   hardened/round-N/, random/...  suffixes.jsonl, state, log, drafters of each round
 *   audits/NAME/                   runs of mistletoe audit
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditEvents } from '../audit/audit-events.js';
import type { RunPlace } from '../audit/run-audit.js';
import { findSameDevice, requireSameKind } from '../audit/run-device.js';
import { refuseUsedFolder } from '../audit/run-place.js';
import { writeAtomically } from '../audit/run-writes.js';
import { createRandom } from '../core/random.js';
import type { Target } from '../decode/target.js';
import { openTarget } from '../decode/target.js';
import { loadDrafter } from '../draft/load-drafter.js';
import { describeMachine } from '../measure/machine.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { nameDevice } from '../runtime/device-choice.js';
import type { Runtime } from '../runtime/program.js';
import type { Prompt } from '../text/prompt-set.js';
import type { AnswersProgress } from './answers.js';
import { planBatches } from './batches.js';
import type { Conversation } from './conversations.js';
import { readConversations } from './conversations.js';
import type { Example } from './examples.js';
import type { HardenRequest } from './harden-request.js';
import { hardenRequestSchema } from './harden-request.js';
import { auditHardened } from './hardening-audits.js';
import type { HardeningResult, RoundRecord } from './hardening-result.js';
import { compareAudit, hardeningResultVersion } from './hardening-result.js';
import { SuffixHunt } from './suffix-hunt.js';
import type { SuffixedPrompt } from './suffixed-texts.js';
import { createSuffixedExamples, huntSuffixes, mixExamples } from './suffixed-texts.js';
import { trainDrafter } from './train-drafter.js';
import type { OpenedRun } from './train-folder.js';
import { createRunFolder, openRunFolder, withResumption } from './train-folder.js';
import type { LogLine } from './training-log.js';
import { findLengths } from './training-result.js';
import type { TrainingTexts } from './training-texts.js';
import { prepareTexts } from './training-texts.js';

type Kind = 'hardened' | 'random';

export interface HardenEvents {
  readonly onNotice?: (text: string) => void;
  readonly onAnswers?: (progress: AnswersProgress) => void;
  /** `round` from 1. */
  readonly onHunt?: (kind: Kind, round: number, done: number, total: number, found: SuffixedPrompt) => void;
  readonly onLine?: (kind: Kind, round: number, line: LogLine) => void;
  readonly audit?: AuditEvents;
}

export interface HardenOptions {
  readonly events?: HardenEvents;
  readonly signal?: AbortSignal;
  readonly cacheFolder?: string;
  /** Used and left open; by default one for this run alone. */
  readonly runtime?: Runtime;
}

export type HardenOutcome =
  | {
      readonly status: 'complete';
      readonly folder: string;
      /** Of the drafter that came of it. */
      readonly hardened: string;
      readonly result: HardeningResult;
    }
  | { readonly status: 'interrupted'; readonly folder: string };

/** `place`: a folder of its own, or the next free number of a name. */
export async function startHardening(
  place: RunPlace,
  request: HardenRequest,
  options: HardenOptions = {},
): Promise<HardenOutcome> {
  if (typeof place === 'string') refuseUsedFolder(place, 'harden');
  return runHardening(() => createRunFolder(place, request, 'harden'), request, options);
}

/** Goes on with the saved request; another version or device, and models or data that have changed, are refused. */
export async function resumeHardening(folder: string, options: HardenOptions = {}): Promise<HardenOutcome> {
  const { request, open } = await openRunFolder(folder, {
    ...{ command: 'harden', schema: hardenRequestSchema, cacheFolder: options.cacheFolder },
  });
  return runHardening(open, request, options);
}

async function runHardening(
  open: () => OpenedRun,
  request: HardenRequest,
  options: HardenOptions,
): Promise<HardenOutcome> {
  if (options.runtime !== undefined) requireSameKind(request, options.runtime);
  const runtime = options.runtime ?? (await openRuntime(await findSameDevice(request), request.threads));
  try {
    const { path: folder, lock } = open();
    try {
      return await hardenOn({ runtime, folder, request, options });
    } catch (cause) {
      if (options.signal?.aborted === true && cause === options.signal.reason)
        return { status: 'interrupted', folder };
      throw withResumption(folder, 'harden', cause);
    } finally {
      lock.release();
    }
  } finally {
    if (options.runtime === undefined) await runtime.dispose();
  }
}

interface Hardening {
  readonly runtime: Runtime;
  readonly folder: string;
  readonly request: HardenRequest;
  readonly options: HardenOptions;
}

async function hardenOn(work: Hardening): Promise<HardenOutcome> {
  const { runtime, folder, request, options } = work;
  const { events = {}, signal, cacheFolder } = options;
  const began = performance.now();
  const target = await openTarget(request.targetFolder, {
    ...{ runtime, date: request.date, onNotice: events.onNotice ?? (() => undefined) },
    ...(cacheFolder === undefined ? {} : { cacheFolder }),
  });
  const conversations = await readConversations(request.data.file);
  const read = { folder, signal, onAnswers: events.onAnswers };
  const texts = await prepareTexts(target, conversations, request.training, read);
  if (texts === undefined) return { status: 'interrupted', folder };
  const prompts = listPrompts(conversations, texts.training, request.hardening.seed);
  const hardened = await hardenRounds(work, target, texts, prompts, 'hardened');
  const random = request.baseline ? await hardenRounds(work, target, texts, prompts, 'random') : undefined;
  signal?.throwIfAborted();
  const drafters = [request.from.folder, hardened.drafter, ...(random === undefined ? [] : [random.drafter])];
  const audits = [];
  for (const name of request.audit.names) {
    const result = await auditHardened(
      { ...{ request, runtime, folder, drafters, cacheFolder, signal }, events: events.audit },
      name,
    );
    if (result === undefined) return { status: 'interrupted', folder };
    audits.push(compareAudit(name, result, request.hardening.seed));
  }
  const { version, system, from, training, hardening, baseline, data } = request;
  const result: HardeningResult = {
    ...{ schema: hardeningResultVersion, version, target: request.target, system, from },
    request: { training, hardening, baseline, data },
    rounds: { hardened: hardened.rounds, random: random?.rounds ?? [] },
    ...{ audits, elapsedMs: performance.now() - began },
    ...{ device: nameDevice(request.device), machine: describeMachine() },
  };
  writeAtomically(join(folder, 'result.json'), `${JSON.stringify(result, null, 1)}\n`, 'harden');
  return { status: 'complete', folder, hardened: hardened.drafter, result };
}

/** What users ask in the texts that are trained on, in an order of its own: rounds take them from the front. */
function listPrompts(
  conversations: readonly Conversation[],
  training: readonly Example[],
  seed: number,
): readonly Prompt[] {
  const trained = new Set(training.map(({ id, conversationId = id }) => conversationId));
  const prompts = conversations.flatMap(({ id, messages }): Prompt[] => {
    const [first] = messages;
    const isAsked = first?.role === 'user' && trained.has(id);
    return isAsked ? [{ id, text: first.content, turns: [first.content] }] : [];
  });
  createRandom(seed, 'hardening prompts').shuffle(prompts);
  return prompts;
}

/** All rounds of one kind: attack, answer, train; the drafter of the last round is what came of it. */
async function hardenRounds(
  { folder, request, options }: Hardening,
  target: Target,
  texts: TrainingTexts,
  prompts: readonly Prompt[],
  kind: Kind,
): Promise<{ readonly drafter: string; readonly rounds: readonly RoundRecord[] }> {
  const { events = {}, signal, cacheFolder } = options;
  const cache = cacheFolder === undefined ? {} : { cacheFolder };
  const { training: settings, hardening } = request;
  const source = kind === 'random' ? 'random' : hardening.source;
  const rounds: RoundRecord[] = [];
  const suffixed: (readonly Example[])[] = []; // [round]
  let drafter = request.from.folder;
  for (let round = 0; round < hardening.rounds; round++) {
    signal?.throwIfAborted();
    const place = join(folder, kind, `round-${round + 1}`);
    mkdirSync(place, { recursive: true });
    // 1. Suffixes against the drafter as it is now, and the target's answers behind them.
    const loaded = await loadDrafter(drafter, {
      target: target.model,
      tokenizer: target.tokenizer,
      ...cache,
    });
    const hunt = new SuffixHunt(target, loaded, settings.chain);
    const found = await huntSuffixes({
      ...{ target, hunt, round, signal, settings: { ...hardening, source } },
      prompts: takeRound(prompts, round, hardening.promptsPerRound),
      ...{ file: join(place, 'suffixes.jsonl'), maxNewTokens: settings.maxNewTokens },
      onPrompt: (line, done, total) => events.onHunt?.(kind, round + 1, done, total, line),
    }).finally(() => hunt.dispose());
    suffixed.push(createSuffixedExamples(found, { round, maxTokens: settings.maxTokens }));
    // 2. Train on the suffixes of the last rounds and on clean texts.
    const remembered = suffixed.slice(-hardening.replayRounds).flat();
    const mixed = mixExamples(texts.training, remembered, hardening.suffixedShare);
    const trained = await trainDrafter({
      ...{ target, start: drafter, folder: place, cache, signal },
      settings: { ...settings, seed: settings.seed + round },
      plan: planBatches(mixed, { batchTokens: settings.batchTokens, seed: settings.seed + round }),
      validation: texts.validation,
      onLine: (line) => events.onLine?.(kind, round + 1, line),
    });
    if (trained.ended === 'interrupted') signal?.throwIfAborted();
    rounds.push(describeRound(found, trained.log));
    drafter = join(place, 'last');
  }
  return { drafter, rounds };
}

/** Each round has prompts of its own, beginning anew where there are too few. */
function takeRound(prompts: readonly Prompt[], round: number, count: number): readonly Prompt[] {
  return Array.from(
    { length: Math.min(count, prompts.length) },
    (_, place) => prompts[(round * count + place) % prompts.length]!,
  );
}

function describeRound(found: readonly SuffixedPrompt[], log: readonly LogLine[]): RoundRecord {
  const texts = found.flatMap((line) => line.texts);
  const lengths = texts.flatMap(({ length }) => length ?? []);
  const measured = findLengths(log);
  return {
    prompts: found.length,
    found: found.filter((line) => line.texts.length > 0).length,
    suffixes: texts.length,
    attackedLength:
      lengths.length === 0 ? null : lengths.reduce((sum, length) => sum + length, 0) / lengths.length,
    cleanBefore: measured?.first.length ?? null,
    cleanAfter: measured?.last.length ?? null,
  };
}
