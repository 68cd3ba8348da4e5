/**
 * What the operator's own traffic leads to expect. Requests are compared with those of their route; while these are few,
 * with those of the model, and at last with all there are, if the few that were seen look like them. Three things keep an attacker
 * from teaching it: a request enters only after its verdict, never when it was flagged or came near it; it waits behind
 * sixteen others or ten minutes, and is dropped if its tenant rang meanwhile; and bursts are thinned (baseline-cell.ts).
 *
 * What it cannot see: many tenants that each lower their requests a little, over days, and never ring; or a new name for each
 * attack, as long as these stay below a tenth of the traffic (sensitivity.ts). And it begins with
 * the traffic it is given: learnt under attack from the first request on, it takes the attack for usual.
 */
import type { Band, HalfLives, Lesson, SavedCell, Side } from './baseline-cell.js';
import { BaselineCell } from './baseline-cell.js';
import { RecentMap } from './recent-map.js';
import type { Stream } from './request-record.js';
import type { AlarmLevels, NullHypothesis } from './sequential-test.js';

/** Requests of a stream whose counts are of one sort: reported ones are not compared with estimates. */
export interface Population extends Stream {
  readonly sort: string;
}

export interface Expectation {
  readonly hypothesis: NullHypothesis;
  /** Whose requests it is drawn from. */
  readonly from: 'route' | 'model' | 'everything';
  /** False while floors are a rule of thumb. */
  readonly isGrown: boolean;
  /** The sharp floors, under many more requests than the others, are good enough to ring on (sensitivity.ts). */
  readonly isSharp: boolean;
  readonly longPrompt: () => number | undefined;
  band(steps?: number): Band;
  /** Where a request's mean accepted length stands among those of benign ones with answers of similar length: 0 to 1. */
  rank(request: Pick<Lesson, 'length' | 'steps'>): number;
}

export interface SavedBaseline {
  readonly cells: readonly (readonly [string, SavedCell])[];
}

export interface BaselineOptions {
  readonly levels: AlarmLevels;
  readonly halfLives?: Partial<HalfLives>;
  /** Whether nothing is to be learnt from a tenant now. */
  readonly isHeld?: (tenant: string) => boolean;
}

interface Waiting {
  readonly model: string;
  readonly tenant: string;
  /** Those whose turn it was when the request ended. */
  readonly cells: readonly BaselineCell[];
  readonly lesson: Lesson;
}

const usualHalfLives: HalfLives = { requests: 1000, ms: 86_400_000 };
const waitingRoom = 16;
const longestWaitMs = 600_000;
const mostCells = 256;
/** Own requests before a young stream is tested by a rule of thumb, and before it can be likened to others. */
const leastAlone = 40;
const leastLikened = 8;
const leastSharp = 200;

export class Baseline {
  private readonly levels: AlarmLevels;
  private readonly halfLives: HalfLives;
  private readonly isHeld: (tenant: string) => boolean;
  private cells = new RecentMap<BaselineCell>(mostCells);
  private waiting: Waiting[] = [];

  constructor({ levels, halfLives = {}, isHeld = () => false }: BaselineOptions) {
    this.levels = levels;
    this.halfLives = { ...usualHalfLives, ...halfLives };
    this.isHeld = isHeld;
  }

  /** Undefined while nothing can be said. */
  expect(population: Population): Expectation | undefined {
    const { levels } = this;
    const [own, model, all] = keysOf(population).map((key) => this.cells.get(key));
    if (own?.hypothesis(levels)?.isGrown === true) return describe('route', own, levels);
    const isNew = own === undefined || own.size < leastLikened;
    if (model?.hypothesis(levels)?.isGrown === true && (isNew || this.isLike(own, model)))
      return describe('model', model, levels);
    if (!isNew && all?.hypothesis(levels)?.isGrown === true && this.isLike(own, all))
      return describe('everything', all, levels);
    if (own !== undefined && own.size >= leastAlone) return describe('route', own, levels);
    if (model !== undefined && model.size >= leastAlone && (isNew || this.isLike(own, model)))
      return describe('model', model, levels);
    return undefined;
  }

  /** A request whose verdict is usual, or which could not be judged while the baseline is young. */
  offer(population: Population, tenant: string, lesson: Lesson): void {
    const { atMs } = lesson;
    const cells = this.cellsOf(population).filter((cell) => cell.takeTurn(atMs));
    if (cells.length > 0) this.waiting.push({ model: population.model, tenant, cells, lesson });
    const isDue = (waiting: Waiting, index: number): boolean =>
      index < this.waiting.length - waitingRoom || atMs - waiting.lesson.atMs > longestWaitMs;
    const due = this.waiting.filter(isDue);
    this.waiting = this.waiting.filter((waiting, index) => !isDue(waiting, index));
    for (const waiting of due) {
      if (this.isHeld(waiting.tenant)) continue;
      for (const cell of waiting.cells) cell.learn(waiting.lesson);
    }
  }

  /** A request that rang, or came near it. */
  flag(population: Population, atMs: number, side: Side): void {
    for (const cell of this.cellsOf(population)) if (cell.takeTurn(atMs)) cell.flag(atMs, side);
  }

  /** For an operator who changed drafter or model: what was learnt about it no longer holds. */
  forget(model: string): void {
    for (const [key] of [...this.cells.entries()]) {
      if ((JSON.parse(key) as readonly string[])[1] === model) this.cells.delete(key);
    }
    this.waiting = this.waiting.filter((waiting) => waiting.model !== model);
  }

  /** Streams that have learnt something, with the number of requests. */
  populations(): readonly (Population & { readonly learnt: number })[] {
    return [...this.cells.entries()].flatMap(([key, { learnt }]) => {
      const [sort, model, route] = JSON.parse(key) as readonly string[];
      return sort === undefined || model === undefined || route === undefined
        ? []
        : [{ sort, model, route, learnt }];
    });
  }

  /** Without those that wait: what comes after a restart decides about nobody's tenant. */
  save(): SavedBaseline {
    return { cells: [...this.cells.entries()].map(([key, cell]) => [key, cell.save()] as const) };
  }

  restore({ cells }: SavedBaseline): void {
    this.waiting = [];
    this.cells = new RecentMap(mostCells);
    for (const [key, saved] of cells) {
      const cell = new BaselineCell(this.halfLives);
      cell.restore(saved);
      this.cells.set(key, cell);
    }
  }

  private cellsOf(population: Population): readonly BaselineCell[] {
    return keysOf(population).map((key) =>
      this.cells.getOrCreate(key, () => new BaselineCell(this.halfLives)),
    );
  }

  /** Whether the few requests of one could be some of the other's. */
  private isLike(few: BaselineCell, many: BaselineCell): boolean {
    const theirs = many.band(this.levels);
    const ours = few.band(this.levels);
    return (
      theirs !== undefined && ours !== undefined && ours.middle >= theirs.low && ours.middle <= theirs.high
    );
  }
}

function describe(
  from: Expectation['from'],
  cell: BaselineCell,
  levels: AlarmLevels,
): Expectation | undefined {
  const hypothesis = cell.hypothesis(levels);
  if (hypothesis === undefined) return undefined;
  return {
    hypothesis,
    from,
    isGrown: hypothesis.isGrown,
    isSharp: cell.size >= leastSharp,
    longPrompt: () => cell.longPrompt(levels),
    band: (steps) => cell.band(levels, steps)!,
    rank: (request) => cell.rank(levels, request)!,
  };
}

/** Of the route, of the model, of everything; JSON keeps names with any characters apart. */
function keysOf({ sort, model, route }: Population): readonly string[] {
  return [[sort, model, route], [sort, model], [sort]].map((names) => JSON.stringify(names));
}
