/** Where the units of an audit run: in this thread, in workers on this machine, or on the workers of a queue. */
import { createHash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { MistletoeError } from '../../core/errors.js';
import { countGpuBytes } from '../../decode/gpu-fit.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import { thisMachine } from '../../runtime/device-choice.js';
import type { Runtime } from '../../runtime/program.js';
import { asSaved } from '../../runs/resumed-run.js';
import { parseQueueUrl, QueueConnection } from '../../runs/queue/queue-connection.js';
import { QueueExecutor } from '../../runs/queue/queue-executor.js';
import type { RunNotice } from '../../runs/queue/queue-messages.js';
import {
  countDefaultWorkers,
  deviceOf,
  findSameDevice,
  requireRoom,
  requireSameKind,
  seatWorkers,
  type WorkerPlan,
} from '../../runs/run-device.js';
import { UnitPool } from '../../runs/unit-pool.js';
import { armKeys } from '../arms/drafter-units.js';
import { openModels } from '../audit-models.js';
import { type AuditRequest, requestSchema } from '../audit-request.js';
import { type Effort, estimateEffort } from '../effort.js';
import { isSearched } from '../result.js';
import type { AuditBackend, BackendOptions } from './run-units.js';
import { type AuditUnitInput, policySchema } from './audit-unit.js';
import { hooksFor, UnitRunner } from './unit-runner.js';
import type { ProcessSetup } from './unit-process.js';

export async function openBackend(request: AuditRequest, options: BackendOptions): Promise<AuditBackend> {
  const { queue, runtime } = options;
  if (queue !== undefined) return openQueue(request, queue, options);
  const plan = options.workers ?? { count: runtime === undefined ? await countWorkers(request) : 1 };
  return plan.count === 1 ? openInProcess(request, options) : openPool(request, plan, options);
}

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

export async function findRuntime(request: AuditRequest, runtime: Runtime | undefined): Promise<Runtime> {
  if (runtime === undefined) return openRuntime(await findSameDevice(request), request.threads);
  requireSameKind(request, runtime);
  return runtime;
}

const thisProcess = { name: '', pid: process.pid };

async function openInProcess(request: AuditRequest, options: BackendOptions): Promise<AuditBackend> {
  const runtime = await findRuntime(request, options.runtime);
  const release = async (): Promise<void> => {
    if (options.runtime === undefined) await runtime.dispose();
  };
  try {
    const { target, drafters } = await openModels(request, runtime, options.cache);
    const runner = new UnitRunner((input) => {
      const { prompts, suffixes, drafter: wanted } = input.request;
      const drafter = drafters.find(({ id }) => id === wanted.id)!;
      return Promise.resolve({ request: { ...request, prompts, suffixes }, target, drafter });
    });
    return {
      effort: await estimateEffort(request, target, drafters),
      label: '',
      executor: {
        capacity: 1,
        run: ({ input }, hooks) =>
          runner.run(input, {
            signal: options.signal,
            onPart: (part) => {
              hooks.onPart(part, thisProcess);
            },
            ...hooksFor((progress) => hooks.onProgress?.(progress, thisProcess)),
            onNotice: options.onNotice,
          }),
        close: () => Promise.resolve(),
      },
      async close() {
        await runner.dispose();
        await release();
      },
    };
  } catch (cause) {
    await release();
    throw cause;
  }
}

/** Compiled beside this module. */
export const unitProcess = fileURLToPath(new URL('./unit-process.js', import.meta.url));

async function openPool(
  request: AuditRequest,
  plan: WorkerPlan,
  { cache, onNotice }: BackendOptions,
): Promise<AuditBackend> {
  const seats = seatWorkers(plan, await findSameDevice(request), request.threads);
  const folders = Object.fromEntries(
    [{ sha256: request.target.sha256, folder: request.targetFolder }, ...request.drafters].map(
      ({ sha256, folder }) => [sha256, folder],
    ),
  );
  await requireRoom(
    seats.map(({ device }) => device),
    Object.values(folders),
  );
  const { cacheFolder = null, verifyCache = false } = cache;
  const pool = new UnitPool<AuditUnitInput>({
    program: unitProcess,
    workers: seats.map(({ name, gpu, device, threads }) => {
      const setup: ProcessSetup = { folders, threads, device, cacheFolder, verifyCache };
      return { name, gpu, setup };
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
  { onNotice }: Pick<BackendOptions, 'onNotice'>,
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
