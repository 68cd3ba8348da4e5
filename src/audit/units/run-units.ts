/** Runs the units of an audit and records them: whichever worker computed a part, it counts once it is in the folder. */
import { describeFault } from '../../core/schema.js';
import type { RunFolder } from '../../runs/run-folder.js';
import { driveUnits, UnitFailed, type UnitPart, type WorkerName } from '../../runs/unit.js';
import { withoutFolders } from '../arms/drafter-audit.js';
import type { AuditUnit, AuditUnitInput } from './audit-unit.js';
import { progressSchema, transferSchema, unitSchema, universalSchema } from './audit-unit.js';
import type { AuditBackend, AuditOptions } from './executors.js';
import type { AuditRequest } from '../audit-request.js';
import type { FailedUnit } from '../result.js';
import { AuditSchedule } from './audit-schedule.js';

export async function runUnits(
  folder: RunFolder,
  request: AuditRequest,
  { executor, effort }: AuditBackend,
  { events = {}, signal }: Pick<AuditOptions, 'events' | 'signal'>,
): Promise<readonly FailedUnit[]> {
  const schedule = new AuditSchedule(request, folder);
  const names = schedule.listNames();
  const failures: FailedUnit[] = [];
  const models = [{ ...request.target, folder: request.targetFolder }, ...request.drafters];
  events.onPlan?.({
    target: request.target.name,
    drafters: request.drafters.map(({ id, policy }) => `${id} (${policy})`),
    preset: request.preset,
    folder: folder.path,
    units: names.length,
    expectedMs: effort?.expectedMs ?? null,
  });
  events.onStart?.(names);
  const record = (unit: AuditUnit, part: UnitPart, worker: WorkerName): void => {
    // Delivered before, by this worker or another.
    if (folder.has(part.key)) return;
    requirePart(schedule, unit, part);
    for (const step of part.steps) folder.appendStep(step);
    const by = worker.name === '' ? {} : { worker: worker.name };
    if (part.timing !== null) folder.appendTiming(part.key, { ...part.timing, ...by });
    folder.complete(part.key, part.data);
    schedule.noteRecorded(part.key);
  };
  const show = (sent: unknown, worker: WorkerName): void => {
    const progress = progressSchema.safeParse(sent).data;
    if (progress === undefined) return;
    const { name } = progress;
    if (progress.kind === 'start') events.onUnitStart?.(name, schedule.countDone(), names.length, worker);
    else if (progress.kind === 'step') events.onStep?.(name, progress.point, progress.steps, worker);
    else events.onUnitEnd?.(name, progress.acceptedLength ?? undefined, worker);
  };
  await driveUnits<AuditUnitInput>({
    schedule,
    executor,
    signal,
    hooksOf: (unit) => ({
      onPart: (part, worker) => {
        record(unit, part, worker);
      },
      onProgress: show,
    }),
    onFailure: (unit, failure) => {
      const error = withoutFolders(failure.message, models);
      failures.push({ unit: unit.key, error });
      events.onNotice?.(`${unit.key} failed: ${error}`);
      const sentence = `It failed: ${error}`;
      const isArm = unit.input.work.kind === 'arms';
      const data = isArm ? { skipped: sentence, failed: true } : { failed: sentence };
      for (const key of schedule.keysOf(unit.input).filter((own) => !folder.has(own)))
        record(unit, { key, data, steps: [], timing: null }, { name: '', pid: null });
    },
  });
  return failures;
}

/** Parts from a queue are untrusted: they fit their unit, or the unit failed. */
function requirePart(schedule: AuditSchedule, { input, key }: AuditUnit, part: UnitPart): void {
  const kind = input.work.kind;
  const schema = kind === 'arms' ? unitSchema : kind === 'universal' ? universalSchema : transferSchema;
  const parsed = schema.safeParse(part.data);
  if (schedule.keysOf(input).includes(part.key) && parsed.success) return;
  const fault = parsed.success ? `it names the part ${part.key}` : describeFault(parsed.error).fault;
  throw new UnitFailed(`a worker sent an output that is not one of ${key}: ${fault}`);
}
