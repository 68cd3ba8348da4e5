/**
 * What benign requests of one kind were like: the last two thousand of them, the older the lighter. A weight halves with
 * every `halfLifeRequests` requests that were learnt since, and with every `halfLifeMs` that lie between it and the newest:
 * a quiet weekend does not make a baseline young. Once there are enough, requests are learnt no faster than
 * the two half-lives fit together, so that a burst weighs no more than the minute it lasted.
 */
import { findFloors, findQuantiles } from './baseline-floors.js';
import { RankTable } from './rank-table.js';
import type { AlarmLevels, NullHypothesis } from './sequential-test.js';

/** What is kept of a request. */
export interface Lesson {
  readonly atMs: number;
  readonly steps: number;
  /** Mean accepted length. */
  readonly length: number;
  /** [share] means. */
  readonly shares: readonly number[];
  readonly promptTokens: number | null;
}

export interface Band {
  readonly middle: number;
  readonly low: number;
  readonly high: number;
}

export interface HalfLives {
  readonly requests: number;
  readonly ms: number;
}

export type Side = 'low' | 'high';

export interface SavedCell {
  readonly learnt: number;
  readonly lastMs: number;
  readonly lessons: readonly (Lesson & { readonly order: number })[];
  readonly flagged: readonly { readonly order: number; readonly atMs: number; readonly side: Side }[];
}

interface Standing extends NullHypothesis {
  readonly isGrown: boolean;
}

const mostLessons = 2048;
const mostFlagged = 64;
/** From so many on, what is learnt is thinned. */
const plenty = 1024;
/** Answers of similar length, by steps; bands are those of a class where it has been seen often enough. */
const stepClasses = [64, 256, Infinity];
/** By tokens. Ranks must not go by steps: the same answer takes more of them where less is accepted. */
const answerClasses = [96, 384, Infinity];
const leastOfClass = 30;
const bandEnds = { low: 0.05, high: 0.95 };

export class BaselineCell {
  learnt = 0;
  private lessons: (Lesson & { readonly order: number })[] = [];
  private flagged: { readonly order: number; readonly atMs: number; readonly side: Side }[] = [];
  private lastMs = -Infinity;
  private standing: Standing | undefined;
  private bands: readonly (Band | undefined)[] | undefined;
  private ranks: readonly (RankTable | undefined)[] | undefined;
  private longest: number | undefined;
  private staleness = Infinity;

  constructor(private readonly halfLives: HalfLives) {}

  get size(): number {
    return this.lessons.length;
  }

  /** Whether a request that ends now may be learnt from; asking takes the place. */
  takeTurn(atMs: number): boolean {
    const spacingMs = this.halfLives.ms / this.halfLives.requests;
    if (this.size >= plenty && atMs - this.lastMs < spacingMs) return false;
    this.lastMs = Math.max(this.lastMs, atMs);
    return true;
  }

  learn(lesson: Lesson): void {
    this.learnt += 1;
    this.lessons.push({ ...lesson, order: this.learnt });
    // Cut in slices: shifting one by one would move two thousand entries for each request.
    if (this.lessons.length > mostLessons + 256) this.lessons = this.lessons.slice(-mostLessons);
    this.staleness += 1;
  }

  /** A request that rang: it is not learnt from, but counted. */
  flag(atMs: number, side: Side): void {
    this.flagged.push({ order: this.learnt, atMs, side });
    if (this.flagged.length > mostFlagged) this.flagged.shift();
    this.staleness += 1;
  }

  hypothesis(levels: AlarmLevels): Standing | undefined {
    this.refresh(levels);
    return this.standing;
  }

  /** What requests with so many steps come to; of any length where such ones are rare. */
  band(levels: AlarmLevels, steps?: number): Band | undefined {
    this.refresh(levels);
    const index = steps === undefined ? -1 : stepClasses.findIndex((limit) => steps < limit);
    return this.bands?.[index] ?? this.bands?.at(-1);
  }

  /** Where a request's mean accepted length stands among those with answers of similar length. */
  rank(levels: AlarmLevels, { length, steps }: Pick<Lesson, 'length' | 'steps'>): number | undefined {
    this.refresh(levels);
    const index = answerClasses.findIndex((limit) => steps * length < limit);
    return (this.ranks?.[index] ?? this.ranks?.at(-1))?.rank(length);
  }

  /** Tokens of a prompt that is longer than nearly all; undefined where too few are known. */
  longPrompt(levels: AlarmLevels): number | undefined {
    this.refresh(levels);
    return this.longest;
  }

  save(): SavedCell {
    const { learnt, lastMs, flagged } = this;
    this.staleness = Infinity; // what is restored is reckoned anew, and goes on as this does
    return { learnt, lastMs: Math.max(lastMs, 0), lessons: this.lessons.slice(-mostLessons), flagged };
  }

  restore({ learnt, lastMs, lessons, flagged }: SavedCell): void {
    this.learnt = learnt;
    this.lastMs = lastMs;
    this.lessons = lessons.slice(-mostLessons);
    this.flagged = flagged.slice(-mostFlagged);
    this.staleness = Infinity;
  }

  private weigh(): (Lesson & { readonly weight: number })[] {
    const recent = this.lessons.slice(-mostLessons);
    return recent.map((lesson) => ({ ...lesson, weight: this.weightOf(lesson.order, lesson.atMs) }));
  }

  private weightOf(order: number, atMs: number): number {
    const { requests, ms } = this.halfLives;
    const newestMs = this.lessons.at(-1)?.atMs ?? atMs;
    return 2 ** -((this.learnt - order) / requests + Math.max(0, newestMs - atMs) / ms);
  }

  /** Sorting two thousand requests for each new one would be waste: a baseline changes slowly. */
  private refresh(levels: AlarmLevels): void {
    if (this.staleness < Math.max(1, this.size / 16)) return;
    this.staleness = 0;
    const weighed = this.weigh();
    const flaggedOf = (side: Side): number =>
      this.flagged
        .filter((request) => request.side === side)
        .reduce((sum, { order, atMs }) => sum + this.weightOf(order, atMs), 0);
    const low = findFloors(weighed, levels.lowShare, flaggedOf('low'));
    const sharp = findFloors(weighed, levels.sharpShare, flaggedOf('low'));
    const high = findFloors(
      weighed.map(({ shares, weight }) => ({ weight, shares: [1 - shares.at(-1)!] })),
      levels.highShare,
      flaggedOf('high'),
    );
    this.standing =
      low === undefined || sharp === undefined || high === undefined
        ? undefined
        : {
            floors: low.floors,
            sharpFloors: sharp.floors,
            ceiling: 1 - high.floors[0]!,
            isGrown: low.isGrown,
          };
    const prompts = weighed.flatMap(({ promptTokens, weight }) =>
      promptTokens === null ? [] : [{ value: promptTokens, weight }],
    );
    this.longest = prompts.length < leastOfClass ? undefined : findQuantiles(prompts, [bandEnds.high])[0];
    this.bands = divide(weighed, ({ steps }) => steps, stepClasses).map((like) => like && findBand(like));
    this.ranks = divide(weighed, ({ steps, length }) => steps * length, answerClasses).map(
      (like) => like && new RankTable(like.map(({ length, weight }) => ({ value: length, weight }))),
    );
  }
}

/** [class] what lies in it, if that is enough, and at last all there is. */
function divide<Item>(
  items: readonly Item[],
  sizeOf: (item: Item) => number,
  limits: readonly number[],
): readonly (readonly Item[] | undefined)[] {
  const classes = limits.map((limit, index) => {
    const least = limits[index - 1] ?? 0;
    const like = items.filter((item) => sizeOf(item) < limit && sizeOf(item) >= least);
    return like.length < leastOfClass ? undefined : like;
  });
  return [...classes, items.length === 0 ? undefined : items];
}

function findBand(lessons: readonly { readonly length: number; readonly weight: number }[]): Band {
  const values = lessons.map(({ length, weight }) => ({ value: length, weight }));
  const [low, middle, high] = findQuantiles(values, [bandEnds.low, 0.5, bandEnds.high]);
  return { middle: middle!, low: low!, high: high! };
}
