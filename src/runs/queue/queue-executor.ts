/**
 * Submits units to a queue and follows them. The queue holds nothing that cannot be made again: a unit that is missing
 * there, for example after a restart of Redis without persistence, is submitted again. Outputs stay in the queue until
 * they are recorded, so a submitter that was killed finds them when it resumes.
 */
import type { Job, Queue, QueueEvents } from 'bullmq';
import { describeCause } from '../../core/errors.js';
import { readVersion } from '../identity.js';
import type { Unit, UnitExecutor, UnitHooks } from '../unit.js';
import { UnitFailed } from '../unit.js';
import type { QueueConnection } from './queue-connection.js';
import { withLimit } from './queue-connection.js';
import type { QueueJob, RunNotice } from './queue-messages.js';
import { jobId, packJob, progressSchema, unpackOutput } from './queue-messages.js';

export interface QueueRun {
  /** Named after the run, so that a resumed run finds its units. */
  readonly queue: string;
  readonly notice: RunNotice;
  readonly onNotice: (message: string) => void;
}

interface Submitted {
  readonly job: QueueJob;
  readonly hooks: UnitHooks;
  readonly resolve: () => void;
  readonly reject: (cause: unknown) => void;
}

const pageSize = 200;
const pollMs = 1000;
const reconcileMs = 15_000;
const refusalMs = 2000;
const attempts = 3;
const maxReason = 500;

export class QueueExecutor<Input> implements UnitExecutor<Input> {
  /** Enough for any number of workers, and little enough to resubmit. */
  readonly capacity = 4096;
  private readonly queue: Queue;
  private readonly events: QueueEvents;
  private readonly submitted = new Map<string, Submitted>();
  private unsent: string[] = [];
  private readonly refusals = new Map<string, string>();
  private isClosed = false;
  private mustReconcile = true;
  private wake: () => void = () => undefined;
  private readonly following: Promise<void>;

  constructor(
    private readonly connection: QueueConnection,
    private readonly announced: QueueRun,
  ) {
    const { bull, client } = connection;
    const options = { connection: client };
    this.queue = new bull.Queue(announced.queue, options);
    this.events = new bull.QueueEvents(announced.queue, options);
    const onError = (cause: unknown): void => {
      connection.noteError(cause);
    };
    this.queue.on('error', onError);
    this.events.on('error', onError);
    for (const event of ['completed', 'failed'] as const)
      this.events.on(event, () => {
        this.wake();
      });
    this.events.on('progress', ({ jobId: id, data }) => {
      const sent = progressSchema.safeParse(data).data;
      if (sent === undefined) return;
      this.submitted.get(id)?.hooks.onProgress?.(sent.progress, { name: sent.worker, pid: null });
    });
    client.on('ready', this.onReady);
    this.following = this.follow();
  }

  run(unit: Unit<Input>, hooks: UnitHooks): Promise<void> {
    const id = jobId(unit.input);
    const job = packJob(unit.key, readVersion(), unit.input);
    return new Promise((resolve, reject) => {
      this.submitted.set(id, { job, hooks, resolve, reject });
      this.unsent.push(id);
      this.wake();
    });
  }

  /** Nothing is left in Redis once the run is complete. */
  async finish(): Promise<void> {
    await this.queue.obliterate({ force: true });
    await this.connection.withdraw(this.announced.queue);
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.wake();
    this.connection.client.off('ready', this.onReady);
    await withLimit(this.following);
    for (const { reject } of this.submitted.values()) reject(new Error('The queue was closed.'));
    this.submitted.clear();
    await withLimit(Promise.allSettled([this.events.close(), this.queue.close()]));
  }

  private readonly onReady = (): void => {
    this.mustReconcile = true;
    this.wake();
  };

  private async follow(): Promise<void> {
    let reconciledMs = performance.now();
    let refusalsMs = 0;
    while (!this.isClosed) {
      const woken = new Promise<void>((resolve) => {
        this.wake = resolve;
      });
      try {
        await this.send();
        await this.collect();
        if (this.mustReconcile || performance.now() - reconciledMs > reconcileMs) {
          this.mustReconcile = false;
          reconciledMs = performance.now();
          await this.reconcile();
        }
        if (performance.now() - refusalsMs > refusalMs) {
          refusalsMs = performance.now();
          await this.showRefusals();
        }
      } catch (cause) {
        if (!this.hasEnded()) this.connection.noteError(cause);
      }
      let timer: NodeJS.Timeout | undefined;
      const timeout = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, pollMs);
      });
      if (this.unsent.length === 0 && !this.hasEnded()) await Promise.race([woken, timeout]);
      clearTimeout(timer);
    }
  }

  /** Changes while others are awaited. */
  private hasEnded(): boolean {
    return this.isClosed;
  }

  private async send(): Promise<void> {
    while (this.unsent.length > 0) {
      const ids = this.unsent.splice(0, pageSize);
      const jobs = ids.flatMap((id) => {
        const entry = this.submitted.get(id);
        const opts = { jobId: id, attempts, backoff: { type: 'fixed', delay: 200 } };
        return entry === undefined ? [] : [{ name: entry.job.key, data: entry.job, opts }];
      });
      try {
        await this.queue.addBulk(jobs);
      } catch (cause) {
        this.unsent.unshift(...ids);
        throw cause;
      }
    }
  }

  private async collect(): Promise<void> {
    for (const type of ['completed', 'failed'] as const) {
      for (let start = 0; ;) {
        const jobs = (await this.queue.getJobs([type], start, start + pageSize - 1, true)) as (Job | undefined)[];
        const settled = jobs.filter((job) => job !== undefined && this.settle(job, type)) as Job[];
        await Promise.all(settled.map((job) => job.remove().catch(() => undefined)));
        if (jobs.length < pageSize) break;
        start += jobs.length - settled.length;
      }
    }
  }

  /** True once the job is not needed any more. False also for units that a later phase will ask for. */
  private settle(job: Job, type: 'completed' | 'failed'): boolean {
    const entry = this.submitted.get(job.id ?? '');
    if (entry === undefined) return false;
    this.submitted.delete(job.id ?? '');
    try {
      if (type === 'failed') throw new UnitFailed(job.failedReason.slice(0, maxReason));
      const { worker, parts } = readOutput(job);
      for (const part of parts) entry.hooks.onPart(part, { name: worker, pid: null });
      entry.resolve();
      return true;
    } catch (cause) {
      entry.reject(cause);
      // An output that could not be recorded, for example on a full disk, waits for the resumed run.
      return cause instanceof UnitFailed;
    }
  }

  /** Submits again what the queue does not have. */
  private async reconcile(): Promise<void> {
    await this.connection.announce(this.announced);
    const ids = [...this.submitted.keys()];
    for (let start = 0; start < ids.length; start += pageSize) {
      const page = ids.slice(start, start + pageSize);
      const states = await Promise.all(page.map((id) => this.queue.getJobState(id)));
      const missing = page.filter((id, index) => states[index] === 'unknown' && this.submitted.has(id));
      this.unsent.push(...missing.filter((id) => !this.unsent.includes(id)));
    }
  }

  private async showRefusals(): Promise<void> {
    const found = await this.connection.listRefusals(this.announced.queue);
    for (const [worker, reason] of Object.entries(found)) {
      if (this.refusals.get(worker) === reason) continue;
      this.refusals.set(worker, reason);
      this.announced.onNotice(`The worker ${worker} does not serve this run: ${reason}`);
    }
  }
}

function readOutput(job: Job): ReturnType<typeof unpackOutput> {
  try {
    return unpackOutput(job.returnvalue);
  } catch (cause) {
    throw new UnitFailed(`a worker sent an output that cannot be read: ${describeCause(cause)}`.slice(0, maxReason));
  }
}
