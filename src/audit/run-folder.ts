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
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
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

  /** Refuses a folder that holds anything: a run never mixes with other files. */
  static create(path: string, config: unknown): RunFolder {
    refuseUsedFolder(path);
    try {
      mkdirSync(path, { recursive: true });
    } catch (cause) {
      throw new MistletoeError('usage', `The folder ${path} cannot be created: ${describeCause(cause)}.`, {
        hint: 'Choose a folder that can be written.',
        cause,
      });
    }
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

  appendTiming(unit: string, timing: object): void {
    appendFileSync(join(this.path, 'timings.jsonl'), `${JSON.stringify({ unit, ...timing })}\n`);
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
    // As it will be read back: a resumed run must not see other values than this one.
    this.units.set(unit, JSON.parse(JSON.stringify(data)) as unknown);
  }

  write(name: string, contents: string): string {
    const path = join(this.path, name);
    writeAtomically(path, contents);
    return path;
  }

  /** One entry for each unit that counts: the last, where a kill made the unit run again. */
  readTimings(): unknown[] {
    const last = new Map<string, unknown>();
    for (const line of readLines(join(this.path, 'timings.jsonl'))) {
      const { unit, ...timing } = JSON.parse(line) as { readonly unit: string };
      if (this.units.has(unit)) last.set(unit, timing);
    }
    return [...last.values()];
  }

  private recover(): void {
    const path = join(this.path, 'units.jsonl');
    const stepsPath = join(this.path, 'steps.jsonl');
    const steps = readLines(stepsPath);
    const kept: string[] = [];
    for (const line of readLines(path)) {
      const { unit, stepLines, data } = parseUnit(line, path);
      // A machine that lost power may have kept a unit without its steps: then the unit is done again.
      if (stepLines > steps.length) break;
      this.units.set(unit, data);
      this.stepLines = stepLines;
      kept.push(line);
    }
    cutToLines(path, kept);
    cutToLines(stepsPath, steps.slice(0, this.stepLines));
    const timingsPath = join(this.path, 'timings.jsonl');
    cutToLines(timingsPath, readLines(timingsPath));
  }
}

export function refuseUsedFolder(path: string): void {
  if (!existsSync(path)) return;
  if (existsSync(join(path, 'config.json'))) {
    throw new MistletoeError('usage', `${path} already holds a run.`, {
      hint: `Go on with it by --resume ${path}, or choose another folder.`,
    });
  }
  // What a run leaves that was killed before it began is no obstacle.
  if (!statSync(path).isDirectory() || readdirSync(path).some((name) => name !== 'config.json.part')) {
    throw new MistletoeError('usage', `${path} already exists and is no run of mistletoe audit.`, {
      hint: 'Choose another folder, or an empty one.',
    });
  }
}

/** The first of NAME-1, NAME-2, ... that does not exist yet. */
export function chooseRunFolder(parent: string, name: string): string {
  let number = 1;
  while (existsSync(join(parent, `${name}-${number}`))) number += 1;
  return join(parent, `${name}-${number}`);
}

function cutToLines(path: string, lines: readonly string[]): void {
  if (!existsSync(path)) return;
  truncateSync(
    path,
    lines.reduce((total, line) => total + Buffer.byteLength(line) + 1, 0),
  );
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
