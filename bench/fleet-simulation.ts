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
  readonly isControl: boolean;
  readonly pair: number;
  readonly ms: number;
}

interface Event {
  readonly atMs: number;
  readonly run: () => void;
}

export function simulate(run: SimulatedRun, fleet: SimulatedFleet, seed = 0): Simulation {
  const random = createRandom(seed, 'fleet');
  const draw = (values: readonly number[]): number => values[random.nextInteger(values.length)]!;
  const controls = Array.from({ length: run.pairs }, (_, pair): Task => ({
    isControl: true,
    pair,
    ms: draw(run.controlsMs),
  }));
  const searches = controls.map(({ pair }) =>
    Array.from({ length: run.searchesPerPair }, (): Task => ({
      isControl: false,
      pair,
      ms: draw(run.searchesMs),
    })),
  );
  const events = new EventQueue();
  const waiting: Task[] = [...controls];
  let [waitingFrom, idle] = [0, fleet.workers];
  const loaded = { fresh: fleet.workers };
  const total = run.pairs * (1 + run.searchesPerPair);
  let [redisFreeMs, submitterFreeMs, redisMs, submitterMs] = [0, 0, 0, 0];
  let [recorded, deaths, handedOut, lastStartMs, endMs] = [0, 0, 0, 0, 0];
  const pass = (nowMs: number, place: 'redis' | 'submitter'): number => {
    const [cost, free] =
      place === 'redis' ? [fleet.redisMs, redisFreeMs] : [fleet.submitterMs, submitterFreeMs];
    const end = Math.max(nowMs, free) + cost;
    if (place === 'redis') [redisFreeMs, redisMs] = [end, redisMs + cost];
    else [submitterFreeMs, submitterMs] = [end, submitterMs + cost];
    return end;
  };
  const start = (nowMs: number): void => {
    while (idle > 0 && waitingFrom < waiting.length) {
      const task = waiting[waitingFrom++]!;
      idle -= 1;
      handedOut += 1;
      if (handedOut <= total) lastStartMs = nowMs;
      const loading = loaded.fresh > 0 ? fleet.loadMs : 0;
      loaded.fresh = Math.max(0, loaded.fresh - 1);
      const begin = pass(nowMs, 'redis') + loading;
      const lifeMs =
        fleet.failuresPerWorkerHour === 0
          ? Infinity
          : (-Math.log(1 - random.next()) * 3_600_000) / fleet.failuresPerWorkerHour;
      if (lifeMs < task.ms) {
        deaths += 1;
        events.add(begin + lifeMs + fleet.leaseMs, (now) => {
          waiting.push(task);
          idle += 1;
          loaded.fresh += 1;
          start(now);
        });
      } else
        events.add(begin + task.ms, (now) => {
          finish(now, task);
        });
    }
  };
  const finish = (nowMs: number, task: Task): void => {
    idle += 1;
    const recordedMs = pass(pass(nowMs, 'redis'), 'submitter');
    events.add(recordedMs, (now) => {
      recorded += 1;
      endMs = now;
      if (task.isControl) waiting.push(...searches[task.pair]!);
      start(now);
    });
    start(nowMs);
  };
  start(0);
  while (recorded < total && events.runNext());
  const workMs = [...controls, ...searches.flat()].reduce((sum, { ms }) => sum + ms, 0);
  const idealMs = workMs / fleet.workers;
  const tailMs = endMs - lastStartMs;
  const shares = { redisBusy: redisMs / endMs, submitterBusy: submitterMs / endMs };
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

/** Events by time: a binary heap. */
class EventQueue {
  private readonly heap: Event[] = [];

  add(atMs: number, handle: (nowMs: number) => void): void {
    const { heap } = this;
    let place = heap.length;
    heap.push({
      atMs,
      run: () => {
        handle(atMs);
      },
    });
    for (let parent = (place - 1) >> 1; place > 0 && heap[parent]!.atMs > atMs; parent = (place - 1) >> 1) {
      [heap[place], heap[parent]] = [heap[parent]!, heap[place]!];
      place = parent;
    }
  }

  /** False if there is none. */
  runNext(): boolean {
    const { heap } = this;
    const [first] = heap;
    if (first === undefined) return false;
    const last = heap.pop()!;
    if (heap.length > 0) {
      heap[0] = last;
      for (let place = 0; ;) {
        const [left, right] = [2 * place + 1, 2 * place + 2];
        let least = place;
        if (left < heap.length && heap[left]!.atMs < heap[least]!.atMs) least = left;
        if (right < heap.length && heap[right]!.atMs < heap[least]!.atMs) least = right;
        if (least === place) break;
        [heap[place], heap[least]] = [heap[least]!, heap[place]!];
        place = least;
      }
    }
    first.run();
    return true;
  }
}
