/**
 * A run on many workers, simulated event by event: units with measured times, workers that load models and die, and two
 * places that every unit passes one at a time, Redis and the submitter. It says how long the run takes and what limits it.
 */
import { createRandom } from '../src/core/random.js';

export interface SimulatedRun {
  /** Prompts times drafters. */
  readonly pairs: number;
  readonly searchesPerPair: number;
  /** Measured times of units, drawn with replacement. */
  readonly controlsMs: readonly number[];
  readonly searchesMs: readonly number[];
}

export interface SimulatedFleet {
  readonly workers: number;
  /** Of each worker process, before its first unit and after each death. */
  readonly loadMs: number;
  readonly failuresPerWorkerHour: number;
  /** Until a unit of a dead worker is given to another. */
  readonly leaseMs: number;
  /** Serial work for one unit. */
  readonly redisMs: number;
  readonly submitterMs: number;
}

export interface Simulation {
  readonly wallMs: number;
  /** Work divided by workers: no fleet of this size is faster. */
  readonly idealMs: number;
  /** From the moment the last unit was handed out until the end: workers wait for stragglers. */
  readonly tailMs: number;
  /** Shares of the wall time. */
  readonly redisBusy: number;
  readonly submitterBusy: number;
  readonly deaths: number;
  readonly limit: 'workers' | 'stragglers' | 'Redis' | 'submitter';
}

interface Task {
  readonly ms: number;
  /** Of controls: what can run once they are recorded. */
  readonly searches: Task[];
}

/** What every unit passes one at a time. */
class SerialStation {
  busyMs = 0;
  private freeMs = 0;

  constructor(private readonly costMs: number) {}

  /** Returns when a unit that comes now has passed. */
  pass(nowMs: number): number {
    this.busyMs += this.costMs;
    this.freeMs = Math.max(nowMs, this.freeMs) + this.costMs;
    return this.freeMs;
  }
}

export function simulate(run: SimulatedRun, fleet: SimulatedFleet): Simulation {
  const random = createRandom(0, 'fleet');
  const draw = (values: readonly number[]): number => values[random.nextInteger(values.length)]!;
  const controls = Array.from({ length: run.pairs }, (): Task => ({
    ms: draw(run.controlsMs),
    searches: [],
  }));
  for (const { searches } of controls)
    for (let count = 0; count < run.searchesPerPair; count++)
      searches.push({ ms: draw(run.searchesMs), searches: [] });
  const tasks = controls.flatMap((control) => [control, ...control.searches]);
  const waiting = [...controls];
  /** Latest first. */
  const events: { readonly atMs: number; readonly happen: (nowMs: number) => void }[] = [];
  const schedule = (atMs: number, happen: (nowMs: number) => void): void => {
    events.splice(events.findLastIndex((event) => event.atMs > atMs) + 1, 0, { atMs, happen });
  };
  const [redis, submitter] = [new SerialStation(fleet.redisMs), new SerialStation(fleet.submitterMs)];
  let [waitingFrom, idle, withoutModels] = [0, fleet.workers, fleet.workers];
  let [recorded, deaths, lastStartMs, endMs] = [0, 0, 0, 0];
  const start = (nowMs: number): void => {
    for (; idle > 0 && waitingFrom < waiting.length; idle--) {
      const task = waiting[waitingFrom++]!;
      if (waitingFrom <= tasks.length) lastStartMs = nowMs;
      const beginMs = redis.pass(nowMs) + (withoutModels > 0 ? fleet.loadMs : 0);
      withoutModels = Math.max(0, withoutModels - 1);
      const hours = -Math.log(1 - random.next()) / fleet.failuresPerWorkerHour;
      const lifeMs = hours * 3_600_000;
      if (lifeMs < task.ms) {
        deaths += 1;
        schedule(beginMs + lifeMs + fleet.leaseMs, (now) => {
          waiting.push(task);
          idle += 1;
          withoutModels += 1;
          start(now);
        });
      } else
        schedule(beginMs + task.ms, (now) => {
          finish(now, task);
        });
    }
  };
  const finish = (nowMs: number, task: Task): void => {
    idle += 1;
    schedule(submitter.pass(redis.pass(nowMs)), (now) => {
      recorded += 1;
      endMs = now;
      waiting.push(...task.searches);
      start(now);
    });
    start(nowMs);
  };
  start(0);
  while (recorded < tasks.length) {
    const next = events.pop()!;
    next.happen(next.atMs);
  }
  const idealMs = tasks.reduce((sum, { ms }) => sum + ms, 0) / fleet.workers;
  const tailMs = endMs - lastStartMs;
  const shares = { redisBusy: redis.busyMs / endMs, submitterBusy: submitter.busyMs / endMs };
  return { wallMs: endMs, idealMs, tailMs, ...shares, deaths, limit: nameLimit(shares, tailMs / endMs) };
}

const busyFrom = 0.8;
const tailFrom = 0.15;

function nameLimit(
  { redisBusy, submitterBusy }: Pick<Simulation, 'redisBusy' | 'submitterBusy'>,
  tailShare: number,
): Simulation['limit'] {
  if (Math.max(redisBusy, submitterBusy) > busyFrom) return redisBusy > submitterBusy ? 'Redis' : 'submitter';
  return tailShare > tailFrom ? 'stragglers' : 'workers';
}
