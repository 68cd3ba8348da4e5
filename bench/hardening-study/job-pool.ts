/** Processes that do the parts of a hardening study, so many at a time, the most urgent part first. */
import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Job, JobResult, Study } from './jobs.js';

interface Waiting {
  readonly job: Job;
  readonly resolve: (result: JobResult | undefined) => void;
}

/** Hardening comes before audits, which nothing waits for. */
const urgency = (job: Job): number => {
  if (job.kind === 'clean') return 2;
  if (job.kind !== 'audit') return job.kind === 'train' ? 0 : 1;
  const order = { stronger: 3, fresh: 3, 'other-objective': 4 } as const;
  return job.candidate.chain?.role === 'random' && job.audit !== 'fresh' ? 5 : order[job.audit];
};

const name = (job: Job): string => {
  if (job.kind === 'hunt' || job.kind === 'train')
    return `${job.kind} ${job.chain.drafter} ${job.chain.variant.name} ${job.chain.role} round ${job.round + 1}`;
  const { drafter, chain, blend } = job.candidate;
  const who = chain === null ? 'before' : `${chain.variant.name} ${chain.role} ${blend}`;
  const what = job.kind === 'audit' ? `${job.audit} of ` : '';
  return `${job.kind} ${drafter} ${who} ${what}${job.prompts[0]!.id}`;
};

export class JobPool {
  private readonly waiting: Waiting[] = [];
  private readonly idle: ChildProcess[] = [];
  private readonly all = new Set<ChildProcess>();
  private readonly timer: NodeJS.Timeout;
  private isOver = false;

  constructor(
    private readonly study: Study,
    private readonly most: number,
    seconds: number,
    private readonly tell: (line: string) => void,
  ) {
    this.timer = setTimeout(
      () => {
        tell('the time is over');
        this.end();
      },
      Math.min(1000 * seconds, 2 ** 31 - 1),
    );
  }

  /** Undefined where it failed, or where there was no time for it; `before`: of performance.now. */
  do(job: Job, before = Infinity): Promise<JobResult | undefined> {
    return new Promise((resolve) => {
      if (this.isOver || performance.now() > before) {
        resolve(undefined);
        return;
      }
      const place = this.waiting.findIndex((other) => urgency(other.job) > urgency(job));
      this.waiting.splice(place < 0 ? this.waiting.length : place, 0, { job, resolve });
      this.next();
    });
  }

  end(): void {
    this.isOver = true;
    clearTimeout(this.timer);
    for (const worker of this.all) worker.kill('SIGKILL');
    for (const { resolve } of this.waiting.splice(0)) resolve(undefined);
  }

  private next(): void {
    while (this.waiting.length > 0 && !this.isOver) {
      const worker = this.idle.pop() ?? (this.all.size < this.most ? this.start() : undefined);
      if (worker === undefined) return;
      this.hand(worker, this.waiting.shift()!);
    }
  }

  private start(): ChildProcess {
    const file = fileURLToPath(new URL('./worker.js', import.meta.url));
    const worker = fork(file, ['worker', JSON.stringify(this.study)], { serialization: 'advanced' });
    this.all.add(worker);
    return worker;
  }

  private hand(worker: ChildProcess, { job, resolve }: Waiting): void {
    const began = performance.now();
    const finish = (result: JobResult | undefined, failure?: string): void => {
      worker.removeAllListeners();
      const took = `${((performance.now() - began) / 1000).toFixed(1)} s`;
      if (!this.isOver || result !== undefined)
        this.tell(`${name(job)}: ${failure ?? 'done'} (${took}, ${this.waiting.length} waiting)`);
      resolve(result);
    };
    worker.once('message', ({ result, failure }: { result?: JobResult; failure?: string }) => {
      finish(result, failure);
      this.idle.push(worker);
      this.next();
    });
    worker.once('exit', (code, signal) => {
      this.all.delete(worker);
      finish(undefined, `the process ended with ${String(code ?? signal)}`);
      this.next();
    });
    worker.send(job);
  }
}
