/**
 * A run is a folder: config.json first, then append-only JSON lines, then reports. A unit of work (one arm of one prompt
 * on one drafter) counts once its line in units.jsonl is complete; whatever a killed run left behind the last complete
 * unit is cut off when it resumes, so that it ends with the bytes of a run that was never killed. Times are kept in
 * a file of their own, because no two runs have the same.
 */
import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describeCause, MistletoeError } from '../core/errors.js';

export interface UnitLine {
  readonly unit: string;
  /** Lines that steps.jsonl has once this unit is complete. */
  readonly stepLines: number;
  readonly data: unknown;
}

export class RunFolder {
  private readonly units = new Map<string, unknown>();
  private stepLines = 0;

  private constructor(readonly path: string) {}

  /** Refuses a folder that holds another run. */
  static create(path: string, config: unknown): RunFolder {
    if (existsSync(join(path, 'config.json'))) {
      throw new MistletoeError('usage', `${path} already holds a run.`, {
        hint: `Go on with it by --resume ${path}, or choose another folder.`,
      });
    }
    mkdirSync(path, { recursive: true });
    writeAtomically(join(path, 'config.json'), formatJson(config));
    return new RunFolder(path);
  }

  static resume(path: string): { folder: RunFolder; config: unknown } {
    const config = readConfig(path);
    const folder = new RunFolder(path);
    folder.recover();
    return { folder, config };
  }

  has(unit: string): boolean {
    return this.units.has(unit);
  }

  get(unit: string): unknown {
    return this.units.get(unit);
  }

  appendStep(step: unknown): void {
    appendFileSync(join(this.path, 'steps.jsonl'), `${JSON.stringify(step)}\n`);
    this.stepLines += 1;
  }

  appendTiming(timing: unknown): void {
    appendFileSync(join(this.path, 'timings.jsonl'), `${JSON.stringify(timing)}\n`);
  }

  /** Makes a unit count: its line is on the disk before this returns. */
  complete(unit: string, data: unknown): void {
    const line: UnitLine = { unit, stepLines: this.stepLines, data };
    const file = openSync(join(this.path, 'units.jsonl'), 'a');
    try {
      writeFileSync(file, `${JSON.stringify(line)}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    this.units.set(unit, data);
  }

  write(name: string, contents: string): string {
    const path = join(this.path, name);
    writeAtomically(path, contents);
    return path;
  }

  readTimings(): unknown[] {
    return readLines(join(this.path, 'timings.jsonl')).map((line) => JSON.parse(line) as unknown);
  }

  private recover(): void {
    const path = join(this.path, 'units.jsonl');
    const lines = readLines(path);
    let size = 0;
    for (const line of lines) {
      const parsed = parseUnit(line, path);
      this.units.set(parsed.unit, parsed.data);
      this.stepLines = parsed.stepLines;
      size += Buffer.byteLength(line) + 1;
    }
    if (existsSync(path)) truncateSync(path, size);
    const stepsPath = join(this.path, 'steps.jsonl');
    const kept = readLines(stepsPath).slice(0, this.stepLines);
    if (existsSync(stepsPath))
      truncateSync(
        stepsPath,
        kept.reduce((total, line) => total + Buffer.byteLength(line) + 1, 0),
      );
    const timingsPath = join(this.path, 'timings.jsonl');
    const timings = readLines(timingsPath);
    if (existsSync(timingsPath))
      truncateSync(
        timingsPath,
        timings.reduce((total, line) => total + Buffer.byteLength(line) + 1, 0),
      );
  }
}

/** Complete lines only: what follows the last newline was cut by a kill. */
function readLines(path: string): string[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8').split('\n').slice(0, -1);
}

function parseUnit(line: string, path: string): UnitLine {
  try {
    return JSON.parse(line) as UnitLine;
  } catch (cause) {
    throw new MistletoeError('usage', `${path} holds a line that is not JSON: ${describeCause(cause)}.`, {
      hint: 'The file was changed from outside; start the audit anew in another folder.',
      cause,
    });
  }
}

function readConfig(path: string): unknown {
  try {
    return JSON.parse(readFileSync(join(path, 'config.json'), 'utf8')) as unknown;
  } catch (cause) {
    throw new MistletoeError('usage', `${path} holds no run that can be resumed: ${describeCause(cause)}.`, {
      hint: 'Give the folder that an earlier `mistletoe audit` named.',
      cause,
    });
  }
}

export function formatJson(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

function writeAtomically(path: string, contents: string): void {
  writeFileSync(`${path}.part`, contents);
  renameSync(`${path}.part`, path);
}
