/**
 * Run folders of strangers: config.json, units, steps, timings and result.json. Whatever is done to them, the units that a
 * resumed run goes on with are the first ones that were written, word for word, and the run ends as a run.
 */
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { requestSchema } from '../../../src/audit/audit-request.js';
import { readRequest } from '../../../src/runs/resumed-run.js';
import { RunFolder } from '../../../src/runs/run-folder.js';
import { verifyRun } from '../../../src/runs/run-units.js';
import { presets } from '../../../src/audit/settings.js';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

const identity = { name: 'tiny', parameterCount: 1000, sha256: 'ab'.repeat(32) };
const request = {
  schema: 'mistletoe.audit-run/2',
  ...{ version: '0.2.0', node: 'v20', preset: 'quick', settings: presets.quick, seed: 1, threads: 1 },
  targetFolder: '/models/target',
  target: identity,
  drafters: [{ ...identity, id: 'd', system: 'EAGLE-3', policy: 'chain:3', folder: '/models/d' }],
  prompts: [{ id: 'p1', text: 'Hello', turns: ['Hello'] }],
  suffixes: [{ text: ' x', place: '--suffix' }],
  ...{ transfer: false, universal: false, command: 'mistletoe audit' },
};

const unitNames = ['a', 'b', 'c', 'd', 'e', 'f'];
const dataOf = (unit: string): unknown => ({ result: `é ${unit}`, list: [1, 2, { deep: null }] });

function finishUnits(folder: RunFolder): void {
  for (const [index, unit] of unitNames.entries()) {
    if (folder.has(unit)) continue;
    for (let step = 0; step < index % 3; step++) folder.appendStep({ unit, step, text: 'Ü–✓' });
    folder.appendTiming(unit, { ms: index });
    folder.complete(unit, dataOf(unit));
  }
}

function damageFile(path: string, random: Random): void {
  const bytes = readFileSync(path);
  const lines = bytes.toString('utf8').split('\n');
  const place = random.nextInteger(lines.length);
  switch (random.nextInteger(6)) {
    case 0: // a line that is another value
      lines[place] = mutateJson(parseOr(lines[place]!), random);
      break;
    case 1:
      lines.splice(place, 1);
      break;
    case 2:
      lines.splice(place, 0, lines[place]!);
      break;
    case 3: {
      const other = random.nextInteger(lines.length);
      [lines[place], lines[other]] = [lines[other]!, lines[place]!];
      break;
    }
    case 4:
      writeFileSync(path, bytes.subarray(0, random.nextInteger(bytes.length + 1)));
      return;
    default:
      writeFileSync(path, mutateBytes(bytes, random));
      return;
  }
  writeFileSync(path, lines.join('\n'));
}

function parseOr(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return line;
  }
}

export const runFolder: FuzzKind = {
  name: 'run-folder',
  boundedRuns: 300,
  open(folder) {
    const whole = join(folder, 'whole');
    const run = RunFolder.create(whole, request);
    finishUnits(run);
    run.close();
    const copy = join(folder, 'copy');
    return (seed) => {
      const random = createRandom(seed, 'run-folder');
      rmSync(copy, { recursive: true, force: true });
      cpSync(whole, copy, { recursive: true });
      const file = pick(random, [
        'config.json',
        'units.jsonl',
        'units.jsonl',
        'steps.jsonl',
        'timings.jsonl',
      ]);
      damageFile(join(copy, file), random);
      const before = verifyRun(copy);
      const resumed = RunFolder.resume(copy);
      try {
        readRequest(copy, requestSchema, 'audit');
        const kept = unitNames.filter((unit) => resumed.has(unit));
        ensure(kept.length === before.units, `${kept.length} of ${before.units} verified units were kept`);
        ensure(kept.join() === unitNames.slice(0, kept.length).join(), `the units ${kept.join()} were kept`);
        for (const unit of kept) {
          const data = JSON.stringify(resumed.get(unit, z.unknown()));
          ensure(data === JSON.stringify(dataOf(unit)), `the unit ${unit} came back as ${data}`);
        }
        resumed.readTimings(z.unknown());
        ensure(Number.isFinite(resumed.elapsedMs()), 'a time that is no number');
        finishUnits(resumed);
      } finally {
        resumed.close();
      }
      ensure(verifyRun(copy).units === unitNames.length, 'the run did not end whole');
      ensure(!readdirSync(copy).some((name) => name.endsWith('.tmp')), 'a part of a file was left');
    };
  },
};
