/**
 * Hardens a drafter in rounds of attack and training, then audits it against the original and a baseline trained on
 * random suffixes. Everything follows from config.json: a killed and resumed run ends with the same drafters and
 * result.
 * answers.jsonl: the target's clean answers
 * hardened/round-N/, random/round-N/: suffixes.jsonl, state, log, drafters, and round.json once finished
 * audits/NAME/: runs of mistletoe audit
 * result.json
 */
import { fileURLToPath } from 'node:url';
import type { AuditEvents } from '../../audit/units/audit-unit.js';
import { quoteWord } from '../../core/files.js';
import { MistletoeError } from '../../core/errors.js';
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import type { WorkerPlan } from '../../runs/run-device.js';
import { describeMachine, findSameDevice, requireRoom, seatWorkers } from '../../runs/run-device.js';
import { UnitPool } from '../../runs/unit-pool.js';
import { withResumption } from '../../runs/resumed-run.js';
import { nameDevice } from '../../runtime/device-choice.js';
import type { Interruption, ReadyRun, RunEvents, RunOptions, TrainingTexts } from '../training-run.js';
import { defineRuns, readTexts, writeResult } from '../training-run.js';
import { type FinishedRounds, type RoundEvents, hardenRounds, listPrompts } from './hardening-rounds.js';
import { type HardenRequest, hardenRequestSchema } from './harden-request.js';
import { type AuditedDrafter, type WriteAuditReports, auditHardened } from './hardening-audits.js';
import { compareAudit, hardeningResultVersion } from './hardening-result.js';
import type { AuditComparison, HardeningResult } from './hardening-result.js';
import type { Baseline, HardeningAudit } from './hardening-settings.js';
import type { HuntSetup } from './hunt-process.js';
import type { HuntInput } from './suffix-hunt.js';

export interface HardenEvents extends RoundEvents, RunEvents<HardenRequest> {
  readonly onNotice?: ((text: string) => void) | undefined;
  readonly onAudit?: ((name: HardeningAudit) => void) | undefined;
  readonly audit?: AuditEvents | undefined;
}

export interface HardenOptions extends RunOptions<HardenEvents> {
  /** Called after each audit, for example with `writeReports`. */
  readonly writeAuditReports?: WriteAuditReports | undefined;
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
  const audited = await auditAll(folder, ready, options, made);
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
  const seats = seatWorkers(plan, await findSameDevice(request), request.threads);
  await requireRoom(
    seats.map(({ device }) => device),
    [request.targetFolder, request.from.folder],
  );
  return new UnitPool<HuntInput>({
    program,
    workers: seats.map(({ name, gpu, device, threads }) => {
      const setup: HuntSetup = { request, folder, device, threads, cacheFolder, verifyCache };
      return { name, gpu, setup };
    }),
    onNotice,
  });
}

type MadeRounds = { hardened: FinishedRounds } & Partial<Record<Baseline, FinishedRounds>>;

async function auditAll(
  folder: string,
  { request, runtime }: ReadyRun<HardenRequest>,
  { events = {}, signal, cacheFolder, verifyCache, writeAuditReports, workers }: HardenOptions,
  made: MadeRounds,
) {
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
    const audited = await auditHardened({ ...work, workers, events: events.audit }, name);
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
  { audits, auditMs }: Pick<HardeningResult, 'audits'> & { readonly auditMs: number },
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
