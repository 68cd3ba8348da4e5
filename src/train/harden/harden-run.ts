/**
 * Hardens a drafter in rounds of attack and training, then audits it against the original and baselines trained on
 * random suffixes or on clean texts. Everything follows from config.json: a killed and resumed run ends with the same
 * drafters and result.
 * answers.jsonl: the target's clean answers
 * hardened/round-N/, random/round-N/, clean/round-N/: suffixes.jsonl, state, log, drafters, and round.json once finished
 * audits/NAME/: runs of mistletoe audit
 * result.json
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import { type AuditPlan, type AuditRequest, createRequest } from '../../audit/audit-request.js';
import type { AuditResult } from '../../audit/result.js';
import { resumeAudit, startAudit } from '../../audit/run-audit.js';
import type { AuditSettings } from '../../audit/settings.js';
import type { AuditEvents } from '../../audit/units/audit-unit.js';
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import {
  type WorkerPlan,
  findSameDevice,
  noteCrowding,
  requireRoom,
  seatWorkers,
} from '../../runs/run-device.js';
import { configFile } from '../../runs/run-units.js';
import { UnitPool } from '../../runs/unit-pool.js';
import type { Interruption, ReadyRun, RunEvents, RunOptions } from '../training-run.js';
import { defineRuns, readTexts, writeResult } from '../training-run.js';
import { type FinishedRounds, type RoundEvents, hardenRounds, listPrompts } from './hardening-rounds.js';
import { type HardenRequest, hardenRequestSchema } from './harden-request.js';
import { compareAudit, describeResult } from './hardening-result.js';
import type { AuditComparison, DrafterRole, HardeningResult } from './hardening-result.js';
import { type Baseline, type HardeningAudit, chooseOtherObjective } from './hardening-settings.js';
import type { HuntSetup } from './hunt-process.js';
import type { HuntInput } from './suffix-hunt.js';

export interface HardenEvents extends RoundEvents, RunEvents<HardenRequest> {
  readonly onAudit?: ((name: HardeningAudit) => void) | undefined;
  readonly audit?: AuditEvents | undefined;
}

export interface HardenOptions extends RunOptions<HardenEvents> {
  /** Called after each audit, for example with `writeReports`. */
  readonly writeAuditReports?:
    | ((folder: string, result: AuditResult, timings: AuditTimings) => Promise<unknown>)
    | undefined;
  /** For the searches and the audits; training runs in this thread. */
  readonly workers?: WorkerPlan | undefined;
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
});

/** `place`: a folder, or the next free number of a name. A request that is refused leaves no folder. */
export const startHardening = runs.start;

/** Resumes with the saved request. Refuses another version or device, and changed models or data. */
export const resumeHardening = runs.resume;

async function hardenIn(
  folder: string,
  ready: ReadyRun<HardenRequest>,
  options: HardenOptions,
): Promise<FinishedHardening | undefined> {
  const { request, target, conversations, cache } = ready;
  const { events = {}, signal, workers } = options;
  const texts = await readTexts(folder, 'harden', ready, request.training, options);
  if (texts === undefined) return undefined;
  const prompts = listPrompts(conversations, texts.training, request.hardening.seed);
  const hasWorkers = workers !== undefined && workers.count > 1;
  const pool = hasWorkers ? await openHuntPool(workers, folder, request, cache) : undefined;
  const rounds = { request, folder, target, texts, prompts, cache, events, signal, pool };
  let made;
  try {
    made = { hardened: await hardenRounds({ ...rounds, role: 'hardened' }) } as MadeRounds;
    for (const role of request.baselines) made[role] = await hardenRounds({ ...rounds, role });
  } finally {
    await pool?.close();
  }
  const { hardened } = made;
  const audited = await auditDrafters(folder, ready, options, made);
  if (audited === undefined) return undefined;
  const result = describeResult(request, texts, made, audited);
  writeResult(folder, 'harden', result);
  return { status: 'complete', folder, hardened: hardened.drafter, result };
}

/** Workers for the searches; compiled beside this module. */
const program = fileURLToPath(new URL('./hunt-process.js', import.meta.url));

async function openHuntPool(
  plan: WorkerPlan,
  folder: string,
  request: HardenRequest,
  { cacheFolder, verifyCache, onNotice }: CacheOptions,
): Promise<UnitPool<HuntInput>> {
  const seats = seatWorkers(plan, await findSameDevice(request));
  noteCrowding(seats, request.threads, onNotice);
  await requireRoom(
    seats.map(({ device }) => device),
    [request.targetFolder, request.from.folder],
  );
  return new UnitPool<HuntInput>({
    program,
    workers: seats.map(({ name, gpu, device }) => {
      const setup: HuntSetup = { request, folder, device, cacheFolder, verifyCache };
      return { name, gpu, setup };
    }),
    onNotice,
  });
}

type MadeRounds = { hardened: FinishedRounds } & Partial<Record<Baseline, FinishedRounds>>;

/**
 * On prompts, seeds and suffix lengths that training never saw. `other-objective` uses an objective that training did not
 * search with; `stronger` has ten times the steps. Each is a run of `mistletoe audit`.
 */
async function auditDrafters(
  folder: string,
  { request, runtime }: ReadyRun<HardenRequest>,
  { events = {}, signal, cacheFolder, verifyCache, writeAuditReports, workers }: HardenOptions,
  made: MadeRounds,
) {
  const roles = ['before', 'hardened', ...request.baselines] as const;
  const drafters = roles.map((role) => (role === 'before' ? request.from.folder : made[role]!.drafter));
  const options = { runtime, signal, events: events.audit, cacheFolder, verifyCache, workers };
  const audits: AuditComparison[] = [];
  let auditMs = 0;
  for (const name of request.audit.names) {
    signal?.throwIfAborted();
    events.onAudit?.(name);
    const place = join(folder, 'audits', name);
    const describe = () => describeAudit(request, name, roles, { drafters, cacheFolder });
    const outcome = existsSync(join(place, configFile))
      ? await resumeAudit(place, options)
      : await startAudit(place, await describe(), options);
    if (outcome.status === 'interrupted') return undefined;
    const { result, timings } = outcome;
    await writeAuditReports?.(place, result, timings);
    audits.push(compareAudit(name, result, roles));
    auditMs += timings.totalMs;
  }
  return { audits, auditMs };
}

async function describeAudit(
  request: HardenRequest,
  name: HardeningAudit,
  roles: readonly DrafterRole[],
  plan: Pick<AuditPlan, 'drafters' | 'cacheFolder'>,
): Promise<AuditRequest> {
  const { audit, targetFolder, threads, device } = request;
  const isStronger = name === 'stronger';
  const prompts = isStronger ? audit.prompts.slice(0, audit.strongerPrompts) : audit.prompts;
  const planned = await createRequest({
    target: targetFolder,
    ...plan,
    threads,
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
    const id = [request.from.name, ...(index === 0 ? [] : [roles[index]!])].join('-');
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
