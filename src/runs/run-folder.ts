/**
 * A run is a folder: config.json first, then append-only JSON lines, then reports. A unit of work (one arm of one prompt
 * on one drafter) counts once its line in units.jsonl is complete; whatever a killed run left behind the last complete
 * unit is cut off when it resumes, so that it ends with the bytes of a run that was never killed. Times are kept in
 * a file of their own, because no two runs have the same. While a process has the run open, nobody else can open it.
 */
import { type Hash, createHash } from 'node:crypto';
import { join } from 'node:path';
import * as z from '../core/schema.js';
import { cutToLines, parseLine, readLines } from './json-lines.js';
import { type RunLock, lockName, lockRun } from './run-lock.js';
import { type RunPlace, createRun } from './run-place.js';
import type { StoredUnit } from './run-units.js';
import {
  formatUnit,
  parseUnitData,
  readRunConfig,
  readUnits,
  startChain,
  stepsFile,
  unitsFile,
} from './run-units.js';
import { appendText, explainFailure, syncFile, writeAtomically } from './run-writes.js';

const timingsFile = 'timings.jsonl';

const elapsedSchema = z.object({ elapsedMs: z.number().nonnegative() });
const timingSchema = z.looseObject({ unit: z.string() });

export class RunFolder {
  private units = new Map<string, StoredUnit>();
  private stepLines = 0;
  /** Over the steps of the unit that is being worked on. */
  private stepsHash: Hash = createHash('sha256');
  private chain = '';
  private earlierMs = 0;
  private hasFailed = false;
  private isClosed = false;
  private readonly sinceMs: number;

  private constructor(
    readonly path: string,
    private readonly lock: RunLock,
    /** Milliseconds of any clock that only goes forward. */
    private readonly now = () => performance.now(),
  ) {
    this.sinceMs = now();
  }

  static create(place: RunPlace, config: unknown, now?: () => number): RunFolder {
    const text = `${JSON.stringify(config, undefined, 2)}\n`;
    const { path, lock } = createRun(place, text, 'audit');
    const folder = new RunFolder(path, lock, now);
    folder.chain = startChain(text);
    return folder;
  }

  static resume(path: string, now?: () => number): RunFolder {
    readRunConfig(path); // refuses what is not a run before it touches the folder
    const lock = explainFailure(join(path, lockName), 'audit', () => lockRun(path));
    try {
      const folder = new RunFolder(path, lock, now);
      folder.recover();
      return folder;
    } catch (cause) {
      lock.release();
      throw cause;
    }
  }

  has(unit: string): boolean {
    return this.units.has(unit);
  }

  /** What the unit was completed with; a line that does not fit the schema is refused with its place. */
  get<T>(unit: string, schema: z.ZodType<T>): T | undefined {
    const stored = this.units.get(unit);
    return stored === undefined ? undefined : parseUnitData(this.path, unit, stored, schema);
  }

  appendStep(step: unknown): void {
    const line = JSON.stringify(step);
    this.append(stepsFile, line);
    this.stepsHash.update(`${line}\n`);
    this.stepLines += 1;
  }

  appendTiming(unit: string, timing: object): void {
    this.append(timingsFile, JSON.stringify({ unit, ...timing }));
  }

  /** Makes a unit count: its line is on the disk before this returns. */
  complete(unit: string, data: unknown): void {
    if (this.units.has(unit)) throw new Error(`The unit ${unit} was completed twice.`);
    this.appendElapsed();
    syncFile(join(this.path, stepsFile));
    const stepsSha256 = this.stepsHash.digest('hex');
    this.stepsHash = createHash('sha256');
    const { line, chain } = formatUnit(this.chain, { unit, stepLines: this.stepLines, stepsSha256, data });
    this.append(unitsFile, line, true);
    this.chain = chain;
    // As it will be read back: a resumed run must not see other values than this one.
    const { data: stored } = JSON.parse(line) as { readonly data: unknown };
    this.units.set(unit, { data: stored, lineNumber: this.units.size + 1 });
  }

  write(name: string, contents: string): string {
    const path = join(this.path, name);
    writeAtomically(path, contents);
    return path;
  }

  /** One entry for each unit that counts: the last, where a kill made the unit run again. Unreadable lines are left out. */
  readTimings<T>(schema: z.ZodType<T>): T[] {
    const last = new Map<string, T>();
    for (const line of readTimingLines(this.path)) {
      const { unit = '', ...fields } = timingSchema.safeParse(line).data ?? {};
      const timing = schema.safeParse(fields).data;
      if (timing !== undefined && this.units.has(unit)) last.set(unit, timing);
    }
    return [...last.values()];
  }

  /** Time spent on this run, before resumes too and between them not; what a kill took is lost up to the last unit. */
  elapsedMs(): number {
    return this.earlierMs + this.now() - this.sinceMs;
  }

  /** Lets others open the run. Nothing may be written any more. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    try {
      // A file in which a write failed half way must not be written behind the gap.
      if (!this.hasFailed) this.appendElapsed();
    } catch {
      // Only the time since the last unit is lost.
    }
    this.lock.release();
  }

  private appendElapsed(): void {
    this.append(timingsFile, JSON.stringify({ elapsedMs: Math.round(this.elapsedMs()) }));
  }

  private append(name: string, line: string, durable = false): void {
    try {
      appendText(join(this.path, name), `${line}\n`, { durable });
    } catch (cause) {
      this.hasFailed = true;
      throw cause;
    }
  }

  private recover(): void {
    const { units, lines, steps, chain } = readUnits(this.path);
    this.units = units;
    this.stepLines = steps.length;
    this.chain = chain;
    const timings = join(this.path, timingsFile);
    for (const line of readTimingLines(this.path))
      this.earlierMs = elapsedSchema.safeParse(line).data?.elapsedMs ?? this.earlierMs;
    explainFailure(join(this.path, unitsFile), 'audit', () => {
      cutToLines(join(this.path, unitsFile), lines);
      cutToLines(join(this.path, stepsFile), steps);
      cutToLines(timings, readLines(timings));
    });
  }
}

/** Undefined for a line that cannot be read. */
function readTimingLines(folder: string): unknown[] {
  return readLines(join(folder, timingsFile)).map((line) => {
    const parsed = parseLine(line);
    return 'value' in parsed ? parsed.value : undefined;
  });
}
