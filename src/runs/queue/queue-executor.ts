/**
 * Submits units to a queue and follows them by its events, which carry the outputs. The queue holds nothing that cannot
 * be made again: a unit that is missing there, for example after a restart of Redis without persistence, is submitted
 * again. Outputs stay in the queue until they are recorded, so a submitter that was killed finds them when it resumes.
 */
import type { Job, Queue, QueueEvents } from 'bullmq';
import { readVersion } from '../identity.js';
import { type Unit, type UnitExecutor, type UnitHooks, UnitFailed } from '../unit.js';
import { isUnreadable, type QueueConnection, withLimit } from './queue-connection.js';
import type { QueueJob, RunNotice } from './queue-messages.js';
import { jobId, maxReasonLength, packJob, progressSchema, unpackOutput } from './queue-messages.js';

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

/** As the queue reports it: untrusted. */
type Outcome = { readonly output: unknown } | { readonly failure: string };

const pageSize = 200;
const pollMs = 1000;
const lookMs = 15_000;
const refusalMs = 2000;
const finishMs = 30_000;
const attempts = 3;

export class QueueExecutor<Input> implements UnitExecutor<Input> {
  /** Enough for any number of workers, and little enough to resubmit. */
  readonly capacity = 4096;
  private readonly version = readVersion();
  private readonly queue: Queue;
  private readonly events: QueueEvents;
  private readonly submitted = new Map<string, Submitted>();
  private readonly unsent = new Set<string>();
  /** Their state is unknown: they were in the queue before, or their events may be lost. */
  private doubtful = new Set<string>();
  /** Recorded, and not needed in the queue any more. */
  private readonly recorded: string[] = [];
  private readonly refusals = new Map<string, string>();
  private isClosed = false;
  private mustLook = true;
  private wake: () => void = () => undefined;
  private readonly following: Promise<void>;

  constructor(
    private readonly connection: QueueConnection,
    private readonly announced: QueueRun,
  ) {
    const { bull, client } = connection;
    const options = { connection: client };
    this.queue = new bull.Queue(announced.queue, options);
    // From the first event on: one of a fast worker may come before this one listens.
    this.events = new bull.QueueEvents(announced.queue, { ...options, lastEventId: '0-0' });
    const onError = (cause: unknown): void => {
      connection.noteError(cause);
    };
    this.queue.on('error', onError);
    this.events.on('error', onError);
    this.events.on('completed', ({ jobId: id, returnvalue }) => {
      this.settle(id, { output: returnvalue });
    });
    this.events.on('failed', ({ jobId: id, failedReason }) => {
      this.settle(id, { failure: failedReason });
    });
    // An earlier submitter, or an earlier connection, submitted it.
    this.events.on('duplicated', ({ jobId: id }) => {
      this.doubtful.add(id);
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
    const job = packJob(unit.key, this.version, unit.input);
    return new Promise((resolve, reject) => {
      this.submitted.set(id, { job, hooks, resolve, reject });
      this.unsent.add(id);
      this.wake();
    });
  }

  /** Nothing is left in Redis once the run is complete. */
  async finish(): Promise<void> {
    const { queue: name, onNotice } = this.announced;
    const emptied = this.connection.withdraw(name).then(() => this.queue.obliterate({ force: true }));
    if (!(await withLimit(emptied, finishMs)))
      onNotice(`The queue ${name} cannot be emptied: Redis does not answer.`);
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
    this.mustLook = true;
    this.wake();
  };

  private async follow(): Promise<void> {
    let [lookedMs, refusalsMs] = [performance.now(), 0];
    while (!this.isClosed) {
      const woken = new Promise<void>((resolve) => {
        this.wake = resolve;
      });
      try {
        await this.send();
        await this.forget();
        if (this.mustLook || performance.now() - lookedMs > lookMs) {
          this.mustLook = false;
          lookedMs = performance.now();
          await this.connection.announce(this.announced);
          this.doubtful = new Set(this.submitted.keys());
        }
        await this.look();
        if (performance.now() - refusalsMs > refusalMs) {
          refusalsMs = performance.now();
          await this.showRefusals();
        }
      } catch (cause) {
        if (!this.hasEnded()) this.connection.noteError(cause);
      }
      if (this.unsent.size === 0 && !this.hasEnded()) await withLimit(woken, pollMs);
    }
  }

  /** Changes while others are awaited. */
  private hasEnded(): boolean {
    return this.isClosed;
  }

  private async send(): Promise<void> {
    while (this.unsent.size > 0) {
      const ids = [...this.unsent].slice(0, pageSize);
      for (const id of ids) this.unsent.delete(id);
      const jobs = ids.flatMap((id) => {
        const entry = this.submitted.get(id);
        const opts = { jobId: id, attempts, backoff: { type: 'fixed', delay: 200 } };
        return entry === undefined ? [] : [{ name: entry.job.key, data: entry.job, opts }];
      });
      try {
        await this.queue.addBulk(jobs);
      } catch (cause) {
        for (const id of ids) this.unsent.add(id);
        throw cause;
      }
    }
  }

  /** What BullMQ does for each job, at once for all: they have no children, logs or locks. */
  private async forget(): Promise<void> {
    const ids = this.recorded.splice(0);
    if (ids.length === 0) return;
    const { queue } = this;
    const removal = this.connection.client.multi();
    for (const state of ['completed', 'failed']) removal.zrem(queue.toKey(state), ...ids);
    await removal.unlink(...ids.map((id) => queue.toKey(id))).exec();
  }

  /** Settles the doubtful units that are finished, and submits again what the queue does not have. */
  private async look(): Promise<void> {
    const ids = [...this.doubtful].filter((id) => this.submitted.has(id));
    for (let start = 0; start < ids.length; start += pageSize) {
      const page = ids.slice(start, start + pageSize);
      const jobs = await Promise.all(page.map((id) => this.findJob(id)));
      jobs.forEach((job, index) => {
        const id = page[index]!;
        if (job === 'unreadable') this.settle(id, { failure: 'its entry in the queue cannot be read' });
        else if (job === undefined) {
          if (this.submitted.has(id)) this.unsent.add(id);
        } else if (job.finishedOn !== undefined) {
          // The reason may be one of an earlier attempt.
          const output = job.returnvalue as unknown;
          this.settle(id, output === null ? { failure: job.failedReason } : { output });
        }
      });
    }
    this.doubtful.clear();
  }

  private async findJob(id: string): Promise<Job | undefined | 'unreadable'> {
    try {
      return await this.queue.getJob(id);
    } catch (cause) {
      if (isUnreadable(cause)) return 'unreadable';
      throw cause;
    }
  }

  private settle(id: string, outcome: Outcome): void {
    const entry = this.submitted.get(id);
    if (entry === undefined) return;
    this.submitted.delete(id);
    try {
      if ('failure' in outcome) throw new UnitFailed(outcome.failure.slice(0, maxReasonLength));
      const { worker, parts } = unpackOutput(outcome.output);
      for (const part of parts) entry.hooks.onPart(part, { name: worker, pid: null });
      this.recorded.push(id);
      entry.resolve();
    } catch (cause) {
      // An output that could not be recorded, for example on a full disk, waits for the resumed run.
      if (cause instanceof UnitFailed) this.recorded.push(id);
      entry.reject(cause);
    }
    this.wake();
  }

  private async showRefusals(): Promise<void> {
    const found = await this.connection.listRefusals(this.announced.queue);
    for (const [worker, reason] of found) {
      if (this.refusals.get(worker) === reason) continue;
      this.refusals.set(worker, reason);
      this.announced.onNotice(`The worker ${worker} does not serve this run: ${reason}`);
    }
  }
}
