/** Where the units of an audit run: in this thread, in workers on this machine, or on the workers of a queue. */
import { createHash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { MistletoeError } from '../../core/errors.js';
import { countGpuBytes } from '../../decode/gpu-fit.js';
import { type RecordedDevice, thisMachine } from '../../runtime/device-choice.js';
import type { Runtime } from '../../runtime/program.js';
import { asSaved } from '../../runs/resumed-run.js';
import { parseQueueUrl, QueueConnection } from '../../runs/queue/queue-connection.js';
import { QueueExecutor } from '../../runs/queue/queue-executor.js';
import type { RunNotice } from '../../runs/queue/queue-messages.js';
import {
  countDefaultWorkers,
  deviceOf,
  findSameDevice,
  noteCrowding,
  requireRoom,
  requireSameKind,
  seatWorkers,
  type WorkerPlan,
} from '../../runs/run-device.js';
import { UnitPool } from '../../runs/unit-pool.js';
import type { UnitExecutor } from '../../runs/unit.js';
import { armKeys } from '../arms/drafter-units.js';
import { type AuditRequest, requestSchema } from '../audit-request.js';
import type { Effort } from '../effort.js';
import { isSearched } from '../result.js';
import { type AuditEvents, type AuditUnitInput, policySchema } from './audit-unit.js';
import { AuditWorker, type WorkerSetup } from './audit-worker.js';

export interface AuditOptions {
  readonly events?: AuditEvents | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly cacheFolder?: string | undefined;
  /** Read all of the converted weights before they are used. */
  readonly verifyCache?: boolean | undefined;
  /** Used and left open; by default one for this audit alone, with the device and the threads of the request. */
  readonly runtime?: Runtime | undefined;
  /** Workers on this machine. Default: several threads on a GPU, none on the CPU or with a given runtime. */
  readonly workers?: WorkerPlan | undefined;
  /** URL of a Redis or Valkey server whose workers run the units; `mistletoe worker` is one. */
  readonly queue?: string | undefined;
}

// What runs the units of an audit, whichever it is.
/** Opened before the run's folder is made: what is refused leaves nothing behind. */
export interface AuditBackend {
  readonly executor: UnitExecutor<AuditUnitInput>;
  /** Null if no model was opened. */
  readonly effort: Effort | null;
  /** For the machine in reports; empty for this process. */
  readonly label: string;
  /** Called once everything is recorded. */
  finish?(): Promise<void>;
  close(): Promise<void>;
}

export async function openBackend(request: AuditRequest, options: AuditOptions): Promise<AuditBackend> {
  const { queue, runtime } = options;
  if (queue !== undefined) return openQueue(request, queue, noticesOf(options));
  const plan = options.workers ?? { count: runtime === undefined ? await countWorkers(request) : 1 };
  return plan.count === 1 ? openInProcess(request, options) : openPool(request, plan, options);
}

const noticesOf =
  ({ events }: AuditOptions) =>
  (message: string): void =>
    events?.onNotice?.(message);

/** The default: several threads on a GPU, because one cannot keep it busy. */
export async function countWorkers(request: AuditRequest): Promise<number> {
  const device = await findSameDevice(request);
  if (device.kind === 'cpu') return 1;
  const { drafters, prompts, targetFolder } = request;
  const keys = drafters.flatMap(({ id }) => prompts.flatMap((prompt) => armKeys(request, id, prompt.id)));
  const folders = [targetFolder, ...drafters.map(({ folder }) => folder)];
  return countDefaultWorkers({
    cores: availableParallelism(),
    searches: keys.filter(({ arm }) => isSearched(arm)).length,
    freeBytes: await thisMachine.freeBytes(device.ordinal),
    modelBytes: await countGpuBytes(folders, device.dtype),
  });
}

function createSetup(request: AuditRequest, device: RecordedDevice, options: AuditOptions): WorkerSetup {
  const { cacheFolder, verifyCache } = options;
  const models = [{ ...request.target, folder: request.targetFolder }, ...request.drafters];
  const folders = Object.fromEntries(models.map(({ sha256, folder }) => [sha256, folder]));
  return { folders, device, threads: request.threads, cacheFolder, verifyCache };
}

const thisProcess = { name: '', pid: process.pid };

export async function openInProcess(request: AuditRequest, options: AuditOptions) {
  const { runtime, signal } = options;
  if (runtime !== undefined) requireSameKind(request, runtime);
  const device = runtime === undefined ? await findSameDevice(request) : deviceOf(request);
  const onNotice = noticesOf(options);
  const worker = new AuditWorker(createSetup(request, device, options), { runtime, signal, onNotice });
  const executor: UnitExecutor<AuditUnitInput> = {
    capacity: 1,
    run: ({ input }, hooks) =>
      worker.run(input, new Set(), {
        onPart: (part) => {
          hooks.onPart(part, thisProcess);
        },
        onProgress: (progress) => hooks.onProgress?.(progress, thisProcess),
      }),
    close: () => Promise.resolve(),
  };
  const close = (): Promise<void> => worker.close();
  try {
    return { executor, effort: await worker.ask(request), label: '', close };
  } catch (cause) {
    await close();
    throw cause;
  }
}

/** Compiled beside this module. */
export const unitProcess = fileURLToPath(new URL('./unit-process.js', import.meta.url));

async function openPool(
  request: AuditRequest,
  plan: WorkerPlan,
  options: AuditOptions,
): Promise<AuditBackend> {
  const ownDevice = await findSameDevice(request);
  const setup = createSetup(request, ownDevice, options);
  const seats = seatWorkers(plan, ownDevice);
  const devices = seats.map(({ device }) => device);
  await requireRoom(devices, Object.values(setup.folders));
  const onNotice = noticesOf(options);
  noteCrowding(seats, request.threads, onNotice);
  const pool = new UnitPool<AuditUnitInput>({
    program: unitProcess,
    workers: seats.map(({ name, gpu, device }) => {
      const own: WorkerSetup = { ...setup, device };
      return { name, gpu, setup: own };
    }),
    onNotice,
  });
  try {
    const effort = (await pool.ask(request)) as Effort;
    return {
      effort: { ...effort, expectedMs: effort.expectedMs / plan.count },
      executor: pool,
      label: `${plan.count} ${seats[0]?.gpu === undefined ? 'worker processes' : 'threads'}`,
      close: () => pool.close(),
    };
  } catch (cause) {
    await pool.close();
    throw cause;
  }
}

/** The submitter opens no models. */
async function openQueue(
  request: AuditRequest,
  url: string,
  onNotice: (message: string) => void,
): Promise<AuditBackend> {
  refuseTreeFiles(request);
  const connection = await QueueConnection.open(parseQueueUrl(url), onNotice);
  const executor = new QueueExecutor<AuditUnitInput>(connection, {
    queue: nameQueue(request),
    notice: describeNeeds(request),
    onNotice,
  });
  return {
    executor,
    effort: null,
    label: 'workers of a queue',
    finish: () => executor.finish(),
    async close() {
      await executor.close();
      connection.close();
    },
  };
}

/** The same for a resumed run, so that it finds its units. */
function nameQueue(request: AuditRequest): string {
  const saved = JSON.stringify(asSaved(requestSchema, request));
  return `mistletoe-${createHash('sha256').update(saved).digest('hex').slice(0, 16)}`;
}

function describeNeeds(request: AuditRequest): RunNotice {
  const device = deviceOf(request);
  return {
    schema: 'mistletoe.run/1',
    command: 'audit',
    version: request.version,
    models: [request.target, ...request.drafters].map(({ name, sha256 }) => ({ name, sha256 })),
    device: { kind: device.kind, dtype: device.dtype, name: device.kind === 'cuda' ? device.name : '' },
    threads: request.threads,
  };
}

/** A worker on another machine does not have the file. */
function refuseTreeFiles({ drafters }: AuditRequest): void {
  const own = drafters.find(({ policy }) => !policySchema.safeParse(policy).success);
  if (own === undefined) return;
  throw new MistletoeError('usage', `The draft policy of ${own.id} is ${own.policy}, which names a file.`, {
    hint: 'With --queue, use a chain, a dynamic tree or a tree by its name.',
  });
}
