/**
 * Serves the runs of a queue, one run at a time. A run is served if this worker has its version, its device and its
 * models; otherwise the worker says why not, here and to the submitter.
 */
import { setTimeout } from 'node:timers/promises';
import type { Job, Worker } from 'bullmq';
import { describeCause } from '../../core/errors.js';
import { readVersion } from '../identity.js';
import type { UnitExecutor, UnitPart } from '../unit.js';
import { type AnnouncedRun, type QueueConnection, withLimit } from './queue-connection.js';
import type { QueueOutput, RunNotice } from './queue-messages.js';
import { jobId, maxNameLength, packOutput, readJob, unpackInput } from './queue-messages.js';

export interface WorkerOptions<Input> {
  readonly name: string;
  /** Reads untrusted input; throws a phrase that says what is wrong. */
  readonly parse: (input: unknown) => Input;
  /** An executor for the run, with one attempt for each unit, or why there is none. */
  readonly openExecutor: (notice: RunNotice) => Promise<UnitExecutor<Input> | Refusal>;
  /** Ends the worker once no run has been open for so long; it waits forever by default. */
  readonly idleExitMs?: number | undefined;
  /** Milliseconds after which the units of a worker that is gone are given to others. */
  readonly leaseMs?: number;
  readonly signal: AbortSignal;
  readonly onNotice: (message: string) => void;
  readonly onUnit?: (outcome: 'completed' | 'failed', key: string) => void;
}

export interface Refusal {
  /** Also for the submitter: names no paths. */
  readonly refusal: string;
  /** For the operator of this worker. */
  readonly hint: string;
}

const defaultLeaseMs = 30_000;
const pollMs = 500;
/** After an error of the connection. */
const retryMs = 1000;
/** How long a run without waiting units is kept open while another has some. */
const idleMs = 5000;
/**
 * Times a unit may be on a worker that vanished. More often than it may end a worker's process (3 times), because every
 * restart of Redis counts against the units that run.
 */
const maxStalledCount = 8;
const rememberedOutputs = 256;
const progressMs = 1000;

/** Returns once the signal is aborted and the units that run are finished or given back. */
export async function serveQueue<Input>(
  connection: QueueConnection,
  options: WorkerOptions<Input>,
): Promise<void> {
  const { signal } = options;
  const refused = new Map<string, string>();
  const outputs = new Map<string, QueueOutput>();
  let lastRunMs = performance.now();
  while (!signal.aborted) {
    const runs = (await unlessAborted(connection.listRuns(), signal)) ?? [];
    if (runs.length > 0) lastRunMs = performance.now();
    if (performance.now() - lastRunMs >= (options.idleExitMs ?? Infinity)) return;
    for (const run of runs) {
      if (isAborted(signal)) break;
      const asked = JSON.stringify(run.notice);
      if (refused.get(run.queue) === asked) continue;
      if (((await unlessAborted(countWaiting(connection, run.queue), signal)) ?? 0) === 0) continue;
      const opened = await openRun(run, options);
      let refusal: Refusal | undefined;
      if ('refusal' in opened) refusal = opened;
      else {
        try {
          refusal = await serveRun(connection, run, opened, options, outputs);
        } finally {
          await opened.close();
        }
      }
      if (refusal === undefined) continue;
      refused.set(run.queue, asked);
      options.onNotice(`Refused the run ${run.queue}: ${refusal.refusal}. ${refusal.hint}`);
      await unlessAborted(connection.refuse(run.queue, options.name, refusal.refusal), signal);
    }
    await unlessAborted(setTimeout(pollMs), signal);
  }
}

/** Changes while others are awaited. */
const isAborted = (signal: AbortSignal): boolean => signal.aborted;

async function openRun<Input>(
  { notice }: AnnouncedRun,
  { openExecutor }: WorkerOptions<Input>,
): Promise<UnitExecutor<Input> | Refusal> {
  const own = readVersion();
  if (notice.version !== own)
    return {
      refusal: `it needs Mistletoe ${notice.version}, and this worker is ${own}`,
      hint: 'Install that version here.',
    };
  try {
    return await openExecutor(notice);
  } catch (cause) {
    return { refusal: describeCause(cause), hint: '' };
  }
}

/** Returns why this worker cannot go on, if none of its processes can. */
async function serveRun<Input>(
  connection: QueueConnection,
  { queue, notice }: AnnouncedRun,
  executor: UnitExecutor<Input>,
  options: WorkerOptions<Input>,
  outputs: Map<string, QueueOutput>,
): Promise<Refusal | undefined> {
  const { bull, client } = connection;
  const { name, leaseMs = defaultLeaseMs, signal } = options;
  let fault: unknown;
  const running = new Set<Promise<void>>();
  const compute = async (job: Job): Promise<QueueOutput> => {
    const { input, key } = readUnit(job, notice, options);
    const known = outputs.get(job.id ?? '');
    if (known !== undefined) return known;
    const parts: UnitPart[] = [];
    const report = throttle((progress) => {
      job.updateProgress({ worker: name, progress }).catch(() => undefined);
    });
    const work = executor.run(
      { key, input },
      { onPart: (part) => void parts.push(part), onProgress: report },
    );
    running.add(work);
    try {
      await work;
    } catch (cause) {
      if (executor.capacity === 0) {
        fault ??= cause;
        // Before BullMQ asks for the next unit: others can run it.
        void worker.pause(true);
      }
      throw cause;
    } finally {
      running.delete(work);
    }
    const output = packOutput(name, parts);
    // A restarted Redis may ask for it again.
    outputs.set(job.id ?? '', output);
    if (outputs.size > rememberedOutputs) outputs.delete(outputs.keys().next().value ?? '');
    return output;
  };
  const worker: Worker = new bull.Worker(queue, compute, {
    connection: client,
    concurrency: executor.capacity,
    lockDuration: leaseMs,
    stalledInterval: leaseMs,
    maxStalledCount,
    runRetryDelay: retryMs,
    name,
  });
  worker.on('error', (cause) => {
    connection.noteError(cause);
  });
  worker.on('completed', (job) => options.onUnit?.('completed', job.name.slice(0, maxNameLength)));
  worker.on('failed', (job, cause) => {
    const unit = job?.name.slice(0, maxNameLength) ?? '';
    options.onUnit?.('failed', unit);
    options.onNotice(`${unit || 'A unit'} failed: ${cause.message}`);
  });
  options.onNotice(`Serves the run ${queue}.`);
  let idleSinceMs = performance.now();
  while (!signal.aborted && fault === undefined) {
    await unlessAborted(setTimeout(pollMs), signal);
    const runs = await unlessAborted(connection.listRuns(), signal);
    if (runs?.some((run) => run.queue === queue) !== true) break;
    if (((await unlessAborted(countWaiting(connection, queue), signal)) ?? 0) > 0)
      idleSinceMs = performance.now();
    if (performance.now() - idleSinceMs > idleMs && runs.length > 1) break;
  }
  if (signal.aborted) options.onNotice('Finishing the units that run.');
  const closed = worker.close();
  await Promise.allSettled(running);
  await withLimit(closed);
  return fault === undefined ? undefined : { refusal: describeCause(fault), hint: '' };
}

function readUnit<Input>(
  job: Job,
  { version }: RunNotice,
  { parse }: WorkerOptions<Input>,
): { readonly input: Input; readonly key: string } {
  const parsed = readJob(job.data);
  if (parsed.version !== version)
    throw new Error(`it is a unit of Mistletoe ${parsed.version}; its run needs ${version}`);
  const input = unpackInput(parsed);
  if (jobId(input) !== job.id) throw new Error('its id is not that of its input');
  return { input: parse(input), key: parsed.key };
}

async function countWaiting({ bull, client }: QueueConnection, queue: string): Promise<number> {
  const handle = new bull.Queue(queue, { connection: client, skipMetasUpdate: true });
  handle.on('error', () => undefined);
  try {
    return await handle.getJobCountByTypes('waiting', 'active', 'delayed', 'prioritized');
  } finally {
    await handle.close();
  }
}

/** Steps come many times a second; starts and ends are all passed on. */
function throttle(send: (progress: unknown) => void): (progress: unknown) => void {
  let lastMs = -Infinity;
  return (progress) => {
    const isStep = (progress as { readonly kind?: unknown }).kind === 'step';
    if (isStep && performance.now() - lastMs < progressMs) return;
    lastMs = performance.now();
    send(progress);
  };
}

/** Undefined once the signal is aborted: while Redis is away, nothing it was asked for ends. */
async function unlessAborted<Result>(
  work: Promise<Result>,
  signal: AbortSignal,
): Promise<Result | undefined> {
  let stop: () => void = () => undefined;
  const aborted = new Promise<undefined>((resolve) => {
    stop = () => {
      resolve(undefined);
    };
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
    work.catch(() => undefined);
  }
}
