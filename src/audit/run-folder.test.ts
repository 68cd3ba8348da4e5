import { cpSync, existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../checkpoint/testing/temporary-folder.js';
import { chooseRunFolder, RunFolder } from './run-folder.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;
const freshFolder = (): string => join(temporary.path, `run-${(count += 1)}`);
const read = (folder: string, name: string): string =>
  existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '';

/** A run of three units with 0, 2 and 1 steps; what is there is not done again. */
function work(folder: RunFolder): void {
  for (const [unit, steps] of [
    ['a', 0],
    ['b', 2],
    ['c', 1],
  ] as const) {
    // prettier-ignore
    if (folder.has(unit)) continue;
    for (let step = 1; step <= steps; step++) folder.appendStep({ unit, step, text: 'Ü–✓' });
    folder.appendTiming(unit, { ms: 1 });
    folder.complete(unit, { result: `é ${unit}` });
  }
}

describe('a run folder', () => {
  it('killed at any byte of its files ends with the same bytes', () => {
    const whole = freshFolder();
    work(RunFolder.create(whole, { seed: 1 }));
    const files = ['units.jsonl', 'steps.jsonl', 'timings.jsonl'];
    const expected = files.slice(0, 2).map((name) => read(whole, name));
    for (const name of files) {
      const size = readFileSync(join(whole, name)).length;
      for (let kept = 0; kept <= size; kept++) {
        const copy = freshFolder();
        cpSync(whole, copy, { recursive: true });
        truncateSync(join(copy, name), kept);
        const { folder, config } = RunFolder.resume(copy);
        expect(config).toEqual({ seed: 1 });
        work(folder);
        expect([read(copy, 'units.jsonl'), read(copy, 'steps.jsonl')], `${name} at ${kept}`).toEqual(
          expected,
        );
        if (name !== 'timings.jsonl') expect(folder.readTimings()).toHaveLength(3);
      }
    }
  });

  it('forgets steps and times of a unit that was not completed', () => {
    const path = freshFolder();
    const first = RunFolder.create(path, {});
    first.appendStep({ step: 1 });
    first.appendTiming('a', { ms: 5 });
    const { folder } = RunFolder.resume(path);
    expect([folder.has('a'), read(path, 'steps.jsonl'), folder.readTimings()]).toEqual([false, '', []]);
  });

  it('gives back what was stored as it will be read', () => {
    const folder = RunFolder.create(freshFolder(), {});
    folder.complete('a', { endless: Infinity, absent: undefined, number: 0.1 });
    expect(folder.get('a')).toEqual({ endless: null, number: 0.1 });
    expect(RunFolder.resume(folder.path).folder.get('a')).toEqual(folder.get('a'));
  });

  it('refuses a folder that is in use, and takes one that is empty', () => {
    const path = freshFolder();
    RunFolder.create(path, {});
    expect(() => RunFolder.create(path, {})).toThrow('already holds a run');
    const other = freshFolder();
    mkdirSync(other);
    RunFolder.create(other, {});
    const files = freshFolder();
    mkdirSync(files);
    writeFileSync(join(files, 'thesis.txt'), '');
    expect(() => RunFolder.create(files, {})).toThrow('is no run of mistletoe audit');
  });

  it('refuses to resume what is no run, or was changed', () => {
    expect(() => RunFolder.resume(freshFolder())).toThrow('holds no run that can be resumed');
    const path = freshFolder();
    RunFolder.create(path, {});
    writeFileSync(join(path, 'units.jsonl'), 'hello\n');
    expect(() => RunFolder.resume(path)).toThrow('holds a line that is not JSON');
  });

  it('is named with the first free number', () => {
    const parent = freshFolder();
    expect(chooseRunFolder(parent, 'x')).toBe(join(parent, 'x-1'));
    mkdirSync(join(parent, 'x-1'), { recursive: true });
    expect(chooseRunFolder(parent, 'x')).toBe(join(parent, 'x-2'));
  });
});
