/**
 * Hardens a drafter in rounds of attack and training, then audits it against the original and a baseline trained on
 * random suffixes. Everything follows from config.json: a killed and resumed run ends with the same drafters and
 * result.
 * answers.jsonl: the target's clean answers
 * hardened/round-N/, random/round-N/: suffixes.jsonl, state, log, drafters, and round.json once finished
 * audits/NAME/: runs of mistletoe audit
 * result.json
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { AuditEvents } from '../../audit/audit-events.js';
import type { AuditRequest } from '../../audit/audit-request.js';
import { createRequest } from '../../audit/audit-request.js';
import type { AuditResult } from '../../audit/result.js';
import { resumeAudit, startAudit } from '../../audit/run-audit.js';
import type { AuditSettings } from '../../audit/settings.js';
import { quoteWord } from '../../core/display-paths.js';
import { MistletoeError } from '../../core/errors.js';
import { describeMachine } from '../../measure/machine.js';
import { withResumption } from '../../runs/resumed-run.js';
import { configFile } from '../../runs/run-units.js';
import { nameDevice } from '../../runtime/device-choice.js';
import type { Runtime } from '../../runtime/program.js';
import type { Interruption, ReadyRun, RunEvents, RunOptions, TrainingTexts } from '../training-run.js';
import { defineRuns, readTexts, writeResult } from '../training-run.js';
import type { HardenRequest } from './harden-request.js';
import { hardenRequestSchema } from './harden-request.js';
import type { AuditComparison, DrafterRole, HardeningResult } from './hardening-result.js';
import { compareAudit, hardeningResultVersion } from './hardening-result.js';
import type { FinishedRounds, RoundEvents } from './hardening-rounds.js';
import { hardenRounds, listPrompts } from './hardening-rounds.js';
import type { Baseline, HardeningAudit } from './hardening-settings.js';
import { chooseOtherObjective } from './hardening-settings.js';

export interface HardenEvents extends RoundEvents, RunEvents<HardenRequest> {
  readonly onNotice?: ((text: string) => void) | undefined;
  readonly onAudit?: ((name: HardeningAudit) => void) | undefined;
  readonly audit?: AuditEvents | undefined;
}

export interface HardenOptions extends RunOptions<HardenEvents> {
  /** Called after each audit, for example with `writeReports`. */
  readonly writeAuditReports?: WriteAuditReports | undefined;
}

interface FinishedHardening {
  readonly status: 'complete';
  readonly folder: string;
  readonly hardened: string;
  readonly result: HardeningResult;
}

export type HardenOutcome = FinishedHardening | Interruption;

const runs = defineRuns<HardenRequest, HardenOptions, FinishedHardening>({
  command: 'harden',
  schema: hardenRequestSchema,
  settingsOf: ({ training }) => training,
  work: hardenIn,
  explain: explainResumption,
});

/** `place`: a folder, or the next free number of a name. A request that is refused leaves no folder. */
export const startHardening = runs.start;

/** Resumes with the saved request. Refuses another version or device, and changed models or data. */
export const resumeHardening = runs.resume;

/** Rounds and audits have folders of their own, but only the whole run can be resumed. */
export function explainResumption(folder: string, failure: unknown): unknown {
  if (!(failure instanceof MistletoeError)) return failure;
  const { code, message, hint = '', cause } = failure;
  const inner = /mistletoe (audit|train|harden) --resume \S.*$/s;
  if (!inner.test(hint)) return withResumption(folder, 'harden', failure);
  const whole = hint.replace(inner, `mistletoe harden --resume ${quoteWord(folder)}`);
  return new MistletoeError(code, message, { hint: whole, cause });
}

async function hardenIn(
  folder: string,
  ready: ReadyRun<HardenRequest>,
  options: HardenOptions,
): Promise<FinishedHardening | undefined> {
  const { request, target, conversations, cache } = ready;
  const { events = {}, signal } = options;
  const texts = await readTexts(folder, 'harden', ready, request.training, options);
  if (texts === undefined) return undefined;
  const prompts = listPrompts(conversations, texts.training, request.hardening.seed);
  const rounds = { request, folder, target, texts, prompts, cache, events, signal };
  const hardened = await hardenRounds({ ...rounds, role: 'hardened' });
  const made: MadeRounds = { hardened };
  for (const role of request.baselines) made[role] = await hardenRounds({ ...rounds, role });
  const audited = await auditAll(folder, ready, options, made);
  if (audited === undefined) return undefined;
  const result = describeResult(request, texts, made, audited);
  writeResult(folder, 'harden', result);
  return { status: 'complete', folder, hardened: hardened.drafter, result };
}

type MadeRounds = { hardened: FinishedRounds } & Partial<Record<Baseline, FinishedRounds>>;

interface Audited {
  readonly audits: readonly AuditComparison[];
  readonly auditMs: number;
}

async function auditAll(
  folder: string,
  { request, runtime }: ReadyRun<HardenRequest>,
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

function describeResult(
  request: HardenRequest,
  texts: TrainingTexts,
  made: MadeRounds,
  { audits, auditMs }: Audited,
): HardeningResult {
  const { version, target, system, from, training, hardening, baselines, data, audit, device } = request;
  const sum = (name: 'searchMs' | 'trainingMs'): number =>
    Object.values(made).reduce((total, rounds) => total + rounds[name], 0);
  return {
    schema: hardeningResultVersion,
    version,
    target,
    system,
    from: { name: from.name, parameterCount: from.parameterCount, sha256: from.sha256 },
    request: { training, hardening, baselines, data },
    audit: { ...audit, prompts: audit.prompts.length },
    texts: {
      conversations: texts.conversations,
      training: texts.trainingCounts,
      heldOut: texts.heldOutCounts,
    },
    rounds: {
      hardened: made.hardened.rounds,
      random: made.random?.rounds ?? [],
      paraphrase: [], // a baseline of earlier versions
    },
    audits,
    times: { searchMs: sum('searchMs'), trainingMs: sum('trainingMs'), auditMs },
    device: nameDevice(device),
    machine: describeMachine(device),
  };
}

interface AuditWork {
  readonly request: HardenRequest;
  readonly runtime: Runtime;
  readonly folder: string;
  /** The first is the drafter before hardening. */
  readonly drafters: readonly AuditedDrafter[];
  readonly cacheFolder?: string | undefined;
  readonly verifyCache?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly events?: AuditEvents | undefined;
  readonly writeAuditReports?: WriteAuditReports | undefined;
}

type WriteAuditReports = (folder: string, result: AuditResult, timings: AuditTimings) => Promise<unknown>;

export interface AuditedDrafter {
  readonly role: DrafterRole;
  readonly folder: string;
}

export const auditFolder = (folder: string, name: HardeningAudit): string => join(folder, 'audits', name);

interface FinishedAudit {
  readonly result: AuditResult;
  readonly elapsedMs: number;
}

/** Undefined if interrupted. */
async function auditHardened(work: AuditWork, name: HardeningAudit): Promise<FinishedAudit | undefined> {
  const { runtime, folder, signal, events, cacheFolder, verifyCache } = work;
  const place = auditFolder(folder, name);
  const options = { runtime, signal, events, cacheFolder, verifyCache };
  const outcome = existsSync(join(place, configFile))
    ? await resumeAudit(place, options)
    : await startAudit(place, await describeAudit(work, name), options);
  if (outcome.status === 'interrupted') return undefined;
  await work.writeAuditReports?.(place, outcome.result, outcome.timings);
  return { result: outcome.result, elapsedMs: outcome.timings.totalMs };
}

export async function describeAudit(
  { request, drafters, cacheFolder }: Pick<AuditWork, 'request' | 'drafters' | 'cacheFolder'>,
  name: HardeningAudit,
): Promise<AuditRequest> {
  const { audit, targetFolder, threads, device } = request;
  const isStronger = name === 'stronger';
  const prompts = isStronger ? audit.prompts.slice(0, audit.strongerPrompts) : audit.prompts;
  const planned = await createRequest({
    target: targetFolder,
    drafters: drafters.map(({ folder }) => folder),
    threads,
    cacheFolder,
    seed: audit.seed,
    date: request.date,
    taps: request.from.taps,
    prompts,
    preset: audit.preset,
    settings: auditSettings(request, name),
    device: device.kind === 'cpu' ? 'cpu' : `cuda:${device.ordinal}`,
    ...(device.kind === 'cuda' ? { dtype: device.dtype } : {}),
    command: `mistletoe harden (its audit "${name}")`,
  });
  // The folders have the same names, so reports use the roles.
  const named = planned.drafters.map((drafter, index) => {
    const id = [request.from.name, ...(index === 0 ? [] : [drafters[index]!.role])].join('-');
    return { ...drafter, id, name: id };
  });
  const { chatTemplate, date } = request;
  return { ...planned, drafters: named, ...(chatTemplate === undefined ? {} : { chatTemplate, date }) };
}

const strongerBy = 10;

export function auditSettings(
  { audit: { settings }, hardening }: Pick<HardenRequest, 'audit' | 'hardening'>,
  name: HardeningAudit,
): AuditSettings {
  switch (name) {
    case 'fresh':
      return settings;
    case 'other-objective':
      return { ...settings, objective: chooseOtherObjective(settings, hardening) };
    case 'stronger':
      return { ...settings, steps: strongerBy * settings.steps };
  }
}
