/**
 * Hardens a drafter in rounds of attack and training, then audits it against the original and a baseline trained on
 * random suffixes. Everything follows from config.json: a killed and resumed run ends with the same drafters and
 * result.
 * answers.jsonl: the target's clean answers
 * hardened/round-N/, random/round-N/: suffixes.jsonl, state, log, drafters, and round.json once finished
 * audits/NAME/: runs of mistletoe audit
 * result.json
 */
import { join } from 'node:path';
import type { AuditEvents } from '../../audit/audit-events.js';
import type { RunPlace, OpenedRun } from '../../runs/run-place.js';
import { findSameDevice, requireSameKind } from '../../runs/run-device.js';
import { refuseUsedFolder, createRun } from '../../runs/run-place.js';
import { writeAtomically } from '../../runs/run-writes.js';
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import { MistletoeError } from '../../core/errors.js';
import { quoteWord } from '../../core/display-paths.js';
import type { Target } from '../../decode/target.js';
import { openTarget } from '../../decode/target.js';
import type { ReadingOptions } from '../../draft/draft-system.js';
import { loadDrafter } from '../../draft/load-drafter.js';
import { describeMachine } from '../../measure/machine.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import { nameDevice } from '../../runtime/device-choice.js';
import type { Runtime } from '../../runtime/program.js';
import type { AnswersProgress } from '../data/answers.js';
import { refuseUnanswered } from '../data/answers.js';
import { listPrompts } from './attacked-prompts.js';
import type { Conversation } from '../data/conversations.js';
import { readConversations } from '../data/conversations.js';
import type { HardenRequest } from './harden-request.js';
import type { Baseline, HardeningAudit } from './hardening-settings.js';
import { hardenRequestSchema } from './harden-request.js';
import type { AuditedDrafter, WriteAuditReports } from './hardening-audits.js';
import { auditHardened } from './hardening-audits.js';
import { compareAudit } from './hardening-comparison.js';
import type { AuditComparison, HardeningResult } from './hardening-result.js';
import { hardeningResultVersion } from './hardening-result.js';
import type { FinishedRounds, RoundEvents } from './hardening-rounds.js';
import { hardenRounds } from './hardening-rounds.js';
import { takeAnswers } from '../data/taken-answers.js';
import type { TrainingTexts } from '../data/training-texts.js';
import { prepareTexts } from '../data/training-texts.js';
import { asSaved, withResumption, openTrainingRun } from '../../runs/resumed-run.js';

export interface HardenEvents extends RoundEvents {
  readonly onOpen?: (run: { readonly folder: string; readonly request: HardenRequest }) => void;
  readonly onAnswers?: (progress: AnswersProgress) => void;
  readonly onAudit?: (name: HardeningAudit) => void;
  readonly audit?: AuditEvents;
}

export interface HardenOptions {
  readonly events?: HardenEvents;
  readonly signal?: AbortSignal;
  readonly cacheFolder?: string;
  readonly verifyCache?: boolean;
  /** Left open; by default the run creates its own. */
  readonly runtime?: Runtime;
  /** Called after each audit, for example with `writeReports`. */
  readonly writeAuditReports?: WriteAuditReports;
}

export type HardenOutcome =
  | {
      readonly status: 'complete';
      readonly folder: string;
      readonly hardened: string;
      readonly result: HardeningResult;
    }
  | { readonly status: 'interrupted'; readonly folder: string };

/** `place`: a folder, or the next free number of a name. A request that is refused leaves no folder. */
export async function startHardening(
  place: RunPlace,
  request: HardenRequest,
  options: HardenOptions = {},
): Promise<HardenOutcome> {
  if (typeof place === 'string') refuseUsedFolder(place, 'harden');
  const saved = asSaved(hardenRequestSchema, request);
  return runHardening(
    () => createRun(place, `${JSON.stringify(saved, null, 1)}\n`, 'harden'),
    saved,
    options,
  );
}

/** Resumes with the saved request. Refuses another version or device, and changed models or data. */
export async function resumeHardening(folder: string, options: HardenOptions = {}): Promise<HardenOutcome> {
  const { request, open } = await openTrainingRun(folder, {
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
    const ready = await prepare(runtime, request, options);
    const { path: folder, lock } = open();
    try {
      return await hardenIn(folder, ready, options);
    } catch (cause) {
      if (options.signal?.aborted === true && cause === options.signal.reason)
        return { status: 'interrupted', folder };
      throw tellToResume(folder, cause);
    } finally {
      lock.release();
    }
  } finally {
    if (options.runtime === undefined) await runtime.dispose();
  }
}

/** Rounds and audits have folders of their own, but only the whole run can be resumed. */
export function tellToResume(folder: string, failure: unknown): unknown {
  if (!(failure instanceof MistletoeError)) return failure;
  const { code, message, hint = '', cause } = failure;
  const inner = /mistletoe (audit|train|harden) --resume \S.*$/s;
  if (!inner.test(hint)) return withResumption(folder, 'harden', failure);
  const whole = hint.replace(inner, `mistletoe harden --resume ${quoteWord(folder)}`);
  return new MistletoeError(code, message, { hint: whole, cause });
}

interface ReadyRun {
  readonly runtime: Runtime;
  readonly request: HardenRequest;
  readonly target: Target;
  readonly conversations: readonly Conversation[];
  readonly cache: CacheOptions & ReadingOptions;
}

/** Loads and checks everything before hours of generation. */
async function prepare(
  runtime: Runtime,
  request: HardenRequest,
  { events, cacheFolder, verifyCache }: HardenOptions,
): Promise<ReadyRun> {
  const { targetFolder, from, data, chatTemplate, date, training } = request;
  const cache: CacheOptions & ReadingOptions = {
    onNotice: (text) => events?.onNotice?.(text),
    ...(cacheFolder === undefined ? {} : { cacheFolder }),
    ...(verifyCache === undefined ? {} : { verifyCache }),
    ...(from.taps === undefined ? {} : { taps: from.taps }),
  };
  const conversations = await readConversations(data.file);
  if (!training.generate) refuseUnanswered(conversations);
  const template = chatTemplate === undefined ? { date } : { chatTemplate, date };
  const target = await openTarget(targetFolder, { runtime, ...template, ...cache });
  await loadDrafter(from.folder, { target: target.model, tokenizer: target.tokenizer, ...cache });
  return { runtime, request, target, conversations, cache };
}

async function hardenIn(folder: string, ready: ReadyRun, options: HardenOptions): Promise<HardenOutcome> {
  const { request, target, conversations, cache } = ready;
  const { events = {}, signal } = options;
  events.onOpen?.({ folder, request });
  const read = { folder, signal, onAnswers: events.onAnswers };
  if (request.answers !== undefined) takeAnswers(request.answers, folder, 'harden');
  const texts = await prepareTexts(target, conversations, request.training, read);
  if (texts === undefined) return { status: 'interrupted', folder };
  const prompts = listPrompts(conversations, texts.training, request.hardening.seed);
  const rounds = { request, folder, target, texts, prompts, cache, events, signal };
  const hardened = await hardenRounds({ ...rounds, role: 'hardened' });
  const made: MadeRounds = { hardened };
  for (const role of request.baselines) made[role] = await hardenRounds({ ...rounds, role });
  const audited = await auditAll(folder, ready, options, made);
  if (audited === undefined) return { status: 'interrupted', folder };
  const result = describeResult(request, { texts, made, ...audited });
  writeAtomically(join(folder, 'result.json'), `${JSON.stringify(result, null, 1)}\n`, 'harden');
  return { status: 'complete', folder, hardened: hardened.drafter, result };
}

type MadeRounds = { hardened: FinishedRounds } & Partial<Record<Baseline, FinishedRounds>>;

interface Audited {
  readonly audits: readonly AuditComparison[];
  readonly auditMs: number;
}

async function auditAll(
  folder: string,
  { request, runtime }: ReadyRun,
  { events = {}, signal, cacheFolder, verifyCache, writeAuditReports }: HardenOptions,
  made: MadeRounds,
): Promise<Audited | undefined> {
  const drafters = (['before', 'hardened', ...request.baselines] as const).flatMap(
    (role): AuditedDrafter[] => {
      const place = role === 'before' ? request.from.folder : made[role]?.drafter;
      return place === undefined ? [] : [{ role, folder: place }];
    },
  );
  const roles = drafters.map(({ role }) => role);
  const audits: AuditComparison[] = [];
  let auditMs = 0;
  for (const name of request.audit.names) {
    signal?.throwIfAborted();
    events.onAudit?.(name);
    const work = { request, runtime, folder, drafters, cacheFolder, verifyCache, signal, writeAuditReports };
    const audited = await auditHardened({ ...work, events: events.audit }, name);
    if (audited === undefined) return undefined;
    audits.push(compareAudit(name, audited.result, { roles, seed: request.hardening.seed }));
    auditMs += audited.elapsedMs;
  }
  return { audits, auditMs };
}

interface Made extends Audited {
  readonly texts: TrainingTexts;
  readonly made: MadeRounds;
}

function describeResult(request: HardenRequest, { texts, made, audits, auditMs }: Made): HardeningResult {
  const { version, target, system, from, training, hardening, baselines, data, audit, device } = request;
  const sum = (name: 'searchMs' | 'trainingMs'): number =>
    Object.values(made).reduce((total, rounds) => total + rounds[name], 0);
  return {
    ...{ schema: hardeningResultVersion, version, target, system },
    from: { name: from.name, parameterCount: from.parameterCount, sha256: from.sha256 },
    request: { training, hardening, baselines, data },
    audit: { ...audit, prompts: audit.prompts.length },
    texts: {
      ...{ conversations: texts.conversations, training: texts.trainingCounts, heldOut: texts.heldOutCounts },
    },
    rounds: {
      hardened: made.hardened.rounds,
      random: made.random?.rounds ?? [],
      paraphrase: [], // a baseline of earlier versions
    },
    ...{ audits, times: { searchMs: sum('searchMs'), trainingMs: sum('trainingMs'), auditMs } },
    ...{ device: nameDevice(device), machine: describeMachine(device) },
  };
}
