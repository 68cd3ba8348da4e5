/**
 * The lines of units.jsonl. Each carries a hash over itself and the line before it, the first one over config.json, so
 * that a line which was changed, dropped or put elsewhere is found: `{"unit","stepLines","stepsSha256","data","chain"}`.
 * Steps that differ do not keep a run from going on, since no result is made from them; verifyRun names them.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import * as z from '../core/schema.js';
import { refuseLinksBelow } from '../core/durable-files.js';
import { readBoundedFileSync } from '../core/files.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import { fileLimits } from '../core/limits.js';
import { parseLine, readLines } from './json-lines.js';
import type { RunCommand } from './run-writes.js';

export const unitsFile = 'units.jsonl';
export const stepsFile = 'steps.jsonl';
export const configFile = 'config.json';

const unitSchema = z.object({
  unit: z.string(),
  /** Lines that steps.jsonl has once this unit is complete. */
  stepLines: z.int().nonnegative(),
  /** Over the lines of its own steps. */
  stepsSha256: z.string(),
  data: z.unknown(),
});
type Unit = z.infer<typeof unitSchema>;

/** Where units are read from: a run that is open, or one that is only looked at. */
export interface UnitSource {
  /** Undefined where the unit is not finished; what does not fit the schema is refused with its place. */
  get<T>(unit: string, schema: z.ZodType<T>): T | undefined;
}

export interface StoredUnit {
  readonly data: unknown;
  /** In units.jsonl, from 1. */
  readonly lineNumber: number;
}

export interface StoredUnits {
  readonly units: Map<string, StoredUnit>;
  /** The lines of the units above, and of their steps. */
  readonly lines: readonly Buffer[];
  readonly steps: readonly Buffer[];
  /** What the next line is chained to. */
  readonly chain: string;
}

export function startChain(config: string | Buffer): string {
  return createHash('sha256').update(config).digest('hex');
}

/** The line, without its end, and what the next one is chained to. */
export function formatUnit(
  previous: string,
  { unit, stepLines, stepsSha256, data }: Unit,
): { readonly line: string; readonly chain: string } {
  const opened = JSON.stringify({ unit, stepLines, stepsSha256, data }).slice(0, -1);
  const chain = hashLink(previous, opened);
  return { line: `${opened},"chain":"${chain}"}`, chain };
}

function hashLink(previous: string, opened: string | Buffer): string {
  return createHash('sha256').update(`${previous}\n`).update(opened).digest('hex');
}

const ending = /^,"chain":"([0-9a-f]{64})"\}$/;
const endingBytes = ',"chain":""}'.length + 64;

/** Called for every unit with the lines of its own steps and the place of its line. */
type UnitCheck = (unit: Unit, steps: readonly Buffer[], place: string) => void;

/** Reads and checks the finished units of a run; nothing is changed. */
export function readUnits(folder: string, check: UnitCheck = () => undefined): StoredUnits {
  const path = join(folder, unitsFile);
  const config = readConfigBytes(folder);
  const steps = readLines(join(folder, stepsFile));
  const units = new Map<string, StoredUnit>();
  const lines: Buffer[] = [];
  let chain = startChain(config);
  let stepLines = 0;
  for (const [index, line] of readLines(path).entries()) {
    const lineNumber = index + 1;
    const place = `${path}, line ${lineNumber},`;
    const parsed = parseUnit(line, place);
    const end = ending.exec(line.subarray(-endingBytes).toString('latin1'));
    const next = hashLink(chain, line.subarray(0, -endingBytes));
    if (end?.[1] !== next) {
      const before = index === 0 ? configFile : `line ${index}`;
      throw refuse(`${place} does not follow from ${before} as it was written (unit ${parsed.unit})`);
    }
    if (units.has(parsed.unit)) throw refuse(`${place} has the unit ${parsed.unit} a second time`);
    check(parsed, steps.slice(stepLines, parsed.stepLines), place);
    // A machine that lost power may have kept a unit without its steps: then the unit is done again.
    if (parsed.stepLines > steps.length) break;
    units.set(parsed.unit, { data: parsed.data, lineNumber });
    lines.push(line);
    chain = next;
    stepLines = parsed.stepLines;
  }
  return { units, lines, steps: steps.slice(0, stepLines), chain };
}

function parseUnit(line: Buffer, place: string): Unit {
  const parsed = parseLine(line);
  if ('fault' in parsed) throw refuse(`${place} ${parsed.fault}`);
  const unit = unitSchema.safeParse(parsed.value);
  if (unit.success) return unit.data;
  throw refuse(`${place} is not a unit: ${z.phraseFault(unit.error)}; saw ${shorten(line)}`);
}

/** What the unit holds, as the schema has it; a line of another version is named with what does not fit. */
export function parseUnitData<T>(
  folder: string,
  unit: string,
  { data, lineNumber }: StoredUnit,
  schema: z.ZodType<T>,
): T {
  const parsed = schema.safeParse(data);
  if (parsed.success) return parsed.data;
  throw refuse(
    `${join(folder, unitsFile)}, line ${lineNumber}, unit ${unit}, does not fit: ${z.phraseFault(parsed.error)}`,
  );
}

/** The door to a run that somebody passed on: all that is read later is below this folder. */
export function readConfigBytes(folder: string, command: RunCommand = 'audit'): Buffer {
  try {
    refuseLinksBelow(folder);
    return readBoundedFileSync(join(folder, configFile), fileLimits.auditResult);
  } catch (cause) {
    if (cause instanceof MistletoeError) throw cause;
    throw new MistletoeError(
      'usage',
      `${folder} holds no run of mistletoe ${command} that can be read: ${describeCause(cause)}.`,
      { hint: `Give the folder that an earlier \`mistletoe ${command}\` named.`, cause },
    );
  }
}

export function readRunConfig(folder: string, command?: RunCommand): unknown {
  const parsed = parseLine(readConfigBytes(folder, command));
  if ('value' in parsed) return parsed.value;
  throw refuse(`${join(folder, configFile)} ${parsed.fault}`);
}

export interface VerifiedRun {
  readonly units: number;
  readonly steps: number;
  /** The end of the chain: two runs with the same value have the same configuration and the same units. */
  readonly sha256: string;
}

/** Whether config.json, the finished units and their steps are as they were written; refuses with the line that is not. */
export function verifyRun(folder: string): VerifiedRun & UnitSource {
  let before = 0;
  const { units, steps, chain } = readUnits(folder, ({ unit, stepLines, stepsSha256 }, own, place) => {
    if (before + own.length < stepLines) {
      throw refuse(`${place} counts ${stepLines} lines of ${stepsFile}, which has ${before + own.length}`);
    }
    const hash = createHash('sha256');
    for (const line of own) hash.update(line).update('\n');
    if (hash.digest('hex') !== stepsSha256) {
      const lines = `${join(folder, stepsFile)}, lines ${before + 1} to ${stepLines},`;
      throw refuse(`${lines} are not the steps of the unit ${unit} as they were written`);
    }
    before = stepLines;
  });
  return {
    units: units.size,
    steps: steps.length,
    sha256: chain,
    get(unit, schema) {
      const stored = units.get(unit);
      return stored === undefined ? undefined : parseUnitData(folder, unit, stored, schema);
    },
  };
}

function refuse(fault: string): MistletoeError {
  return new MistletoeError('usage', `${fault}.`, {
    hint: 'It was changed, or another version wrote it; start a new run in another folder.',
  });
}

function shorten(line: Buffer): string {
  const text = line.toString('utf8', 0, 60);
  return line.length > 60 ? `${text}...` : text;
}
