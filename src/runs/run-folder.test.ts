import fs, {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import * as z from '../core/schema.js';
import { replaceBuiltin } from '../../test/support/replaced-builtin.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { MistletoeError } from '../core/errors.js';
import { RunFolder } from './run-folder.js';
import { verifyRun } from './run-units.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;
const freshFolder = (): string => join(temporary.path, `run-${(count += 1)}`);
const read = (folder: string, name: string): string =>
  existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '';
const anything = z.unknown();

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
  folder.close();
}

function finishedRun(): string {
  const path = freshFolder();
  work(RunFolder.create(path, { seed: 1 }));
  return path;
}

function failureOf(action: () => unknown): MistletoeError {
  try {
    action();
  } catch (failure) {
    if (failure instanceof MistletoeError) return failure;
    throw failure;
  }
  throw new Error('nothing was refused');
}

describe('a run folder', () => {
  /** Every eighth byte, and all of them around the ends of lines. */
  function cutsOf(bytes: Buffer): number[] {
    const isNearEnd = (place: number): boolean =>
      bytes.subarray(Math.max(0, place - 2), place + 2).includes(10);
    return Array.from({ length: bytes.length + 1 }, (_, place) => place).filter(
      (place) => place % 8 === 0 || isNearEnd(place),
    );
  }

  it('killed anywhere in its files ends with the same bytes', () => {
    const whole = finishedRun();
    const files = ['units.jsonl', 'steps.jsonl', 'timings.jsonl'];
    const expected = files.slice(0, 2).map((name) => read(whole, name));
    for (const name of files) {
      for (const kept of cutsOf(readFileSync(join(whole, name)))) {
        const copy = freshFolder();
        cpSync(whole, copy, { recursive: true });
        truncateSync(join(copy, name), kept);
        const folder = RunFolder.resume(copy);
        work(folder);
        expect([read(copy, 'units.jsonl'), read(copy, 'steps.jsonl')], `${name} at ${kept}`).toEqual(
          expected,
        );
        if (name !== 'timings.jsonl') expect(folder.readTimings(anything)).toHaveLength(3);
      }
    }
  });

  it('leaves nothing behind but the run', () => {
    expect(readdirSync(finishedRun()).sort()).toEqual(
      ['config.json', 'steps.jsonl', 'timings.jsonl', 'units.jsonl'], // prettier-ignore
    );
  });

  it('forgets steps and times of a unit that was not completed', () => {
    const path = freshFolder();
    const first = RunFolder.create(path, {});
    first.appendStep({ step: 1 });
    first.appendTiming('a', { ms: 5 });
    first.close();
    const folder = RunFolder.resume(path);
    expect([folder.has('a'), read(path, 'steps.jsonl'), folder.readTimings(anything)]).toEqual([
      false,
      '',
      [],
    ]);
  });

  it('gives back what was stored as it will be read', () => {
    const folder = RunFolder.create(freshFolder(), {});
    folder.complete('a', { endless: Infinity, absent: undefined, number: 0.1 });
    const stored = { endless: null, number: 0.1 };
    expect(folder.get('a', anything)).toEqual(stored);
    folder.close();
    expect(RunFolder.resume(folder.path).get('a', anything)).toEqual(stored);
    expect(folder.get('b', anything)).toBeUndefined();
  });

  it('hands out only what fits the schema', () => {
    const folder = RunFolder.create(freshFolder(), {});
    folder.complete('a', { length: 2 });
    folder.complete('p/b', { length: null });
    const schema = z.object({ length: z.number() });
    expect(folder.get('a', schema)).toEqual({ length: 2 });
    const message = `${join(folder.path, 'units.jsonl')}, line 2, unit p/b, does not fit: length: `;
    expect(failureOf(() => folder.get('p/b', schema)).message).toContain(message);
    folder.close();
    const resumed = RunFolder.resume(folder.path);
    expect(failureOf(() => resumed.get('p/b', schema)).message).toContain(message);
  });

  it('refuses a folder that is in use, and takes one that is empty', () => {
    expect(() => RunFolder.create(finishedRun(), {})).toThrow('already holds a run');
    const other = freshFolder();
    mkdirSync(other);
    RunFolder.create(other, {});
    const files = freshFolder();
    mkdirSync(files);
    writeFileSync(join(files, 'thesis.txt'), '');
    expect(() => RunFolder.create(files, {})).toThrow('is not a run of mistletoe audit');
  });

  it('refuses to resume what is no run', () => {
    expect(() => RunFolder.resume(freshFolder())).toThrow('holds no run of mistletoe audit that can be read');
    const path = finishedRun();
    writeFileSync(join(path, 'config.json'), '{"seed": ');
    expect(() => RunFolder.resume(path)).toThrow('config.json is not valid JSON');
  });

  it('is named with the first free number', () => {
    const parent = freshFolder();
    const first = RunFolder.create({ parent, name: 'x' }, {});
    expect(first.path).toBe(join(parent, 'x-1'));
    expect(basename(RunFolder.create({ parent, name: 'x' }, {}).path)).toBe('x-2');
  });
});

describe('units that were changed from outside', () => {
  const lines = (path: string): string[] => read(path, 'units.jsonl').trimEnd().split('\n');
  const rewrite = (path: string, changed: readonly string[]): void => {
    writeFileSync(join(path, 'units.jsonl'), `${changed.join('\n')}\n`);
  };

  it.each([
    ['null', 'is not a unit'],
    ['7', 'is not a unit'],
    ['[]', 'is not a unit'],
    ['"x"', 'is not a unit'],
    ['{"unit":5,"stepLines":0}', 'is not a unit: unit: '],
    ['{"unit":"b","stepLines":-1}', 'is not a unit: stepLines: '],
    ['{"unit":"b","stepLines":0,"data":{}}', 'is not a unit: stepsSha256: '],
    ['{"unit":"b","stepLines":0,"stepsSha256":"","data":{}}', 'does not follow from line 1'],
    ['hello', 'is not valid JSON'],
    ['', 'is not valid JSON'],
  ])('%j in place of a line is refused with its place', (line, fault) => {
    const path = finishedRun();
    rewrite(path, [lines(path)[0]!, line, lines(path)[2]!]);
    for (const open of [() => RunFolder.resume(path), () => verifyRun(path)]) {
      const { message, code, hint } = failureOf(open);
      expect(message).toContain(`${join(path, 'units.jsonl')}, line 2, ${fault}`);
      expect([code, hint]).toEqual(['usage', expect.stringContaining('start a new run')]);
    }
    expect(existsSync(join(path, 'run.lock'))).toBe(false);
  });

  it('are found wherever a byte differs, a line is missing or two are swapped', () => {
    const path = finishedRun();
    const original = lines(path);
    const changed = original[1]!.replace('é b', 'é x');
    for (const [order, line] of [
      [[original[0]!, changed, original[2]!], 2],
      [[original[0]!, original[2]!], 2],
      [[original[1]!], 1],
      [[original[0]!, original[0]!], 2],
      [[original[1]!, original[0]!, original[2]!], 1],
    ] as const) {
      rewrite(path, order);
      const before = line === 1 ? 'config.json' : 'line 1';
      expect(failureOf(() => verifyRun(path)).message).toContain(
        `line ${line}, does not follow from ${before}`,
      );
    }
    rewrite(path, original);
    expect(verifyRun(path)).toMatchObject({ units: 3, steps: 3 });
    writeFileSync(join(path, 'config.json'), '{"seed": 2}\n');
    expect(failureOf(() => verifyRun(path)).message).toContain('line 1, does not follow from config.json');
  });

  it('have a digest that tells runs apart', () => {
    const { sha256 } = verifyRun(finishedRun());
    expect(verifyRun(finishedRun()).sha256).toBe(sha256);
    const other = freshFolder();
    work(RunFolder.create(other, { seed: 2 }));
    expect(verifyRun(other).sha256).not.toBe(sha256);
  });
});

describe('steps that were changed from outside', () => {
  const change = (path: string, edit: (lines: string[]) => readonly string[]): void => {
    const lines = read(path, 'steps.jsonl').trimEnd().split('\n');
    writeFileSync(join(path, 'steps.jsonl'), edit(lines).map((line) => `${line}\n`).join('')); // prettier-ignore
  };

  it.each<[string, (lines: string[]) => readonly string[], string]>([
    ['changed', ([a, b, c]) => [a!, b!.replace('Ü', 'U'), c!], 'steps.jsonl, lines 1 to 2, are not the steps of the unit b'], // prettier-ignore
    ['swapped', ([a, b, c]) => [a!, c!, b!], 'steps.jsonl, lines 1 to 2, are not the steps of the unit b'],
    ['dropped at the end', ([a, b]) => [a!, b!], 'units.jsonl, line 3, counts 3 lines of steps.jsonl, which has 2'], // prettier-ignore
    ['dropped before', ([, b, c]) => [b!, c!], 'steps.jsonl, lines 1 to 2, are not the steps of the unit b'],
  ])('%s are named', (_, edit, message) => {
    const path = finishedRun();
    change(path, edit);
    expect(failureOf(() => verifyRun(path)).message).toContain(message);
  });

  it('behind the last unit belong to none yet', () => {
    const path = finishedRun();
    change(path, (lines) => [...lines, '{"step": 4}']);
    expect(verifyRun(path)).toMatchObject({ units: 3, steps: 3 });
  });

  it('are as they were written after a kill and a resume, too', () => {
    const whole = finishedRun();
    const path = freshFolder();
    cpSync(whole, path, { recursive: true });
    truncateSync(join(path, 'units.jsonl'), read(path, 'units.jsonl').indexOf('"b"'));
    work(RunFolder.resume(path));
    expect(verifyRun(path).sha256).toBe(verifyRun(whole).sha256);
  });
});

describe('bytes that are no text', () => {
  it('in units.jsonl are refused with their place', () => {
    const path = finishedRun();
    const bytes = readFileSync(join(path, 'units.jsonl'));
    bytes[bytes.indexOf('é')] = 0xff;
    writeFileSync(join(path, 'units.jsonl'), bytes);
    expect(() => RunFolder.resume(path)).toThrow(/units\.jsonl, line 1, is not UTF-8 text/);
  });

  it('in steps.jsonl do not move the place of the cut', () => {
    const path = finishedRun();
    const steps = join(path, 'steps.jsonl');
    const damaged = Buffer.concat([Buffer.from([0xff, 0xfe, 0xc3]), readFileSync(steps)]);
    writeFileSync(steps, Buffer.concat([damaged, Buffer.from('{"torn')]));
    RunFolder.resume(path).close();
    expect(readFileSync(steps).equals(damaged)).toBe(true);
  });
});

describe('times', () => {
  it('with a bad line are read without it', () => {
    const path = finishedRun();
    appendFileSync(join(path, 'timings.jsonl'), 'null\n{"unit": \n\xff\n7\n{"unit":"a","ms":4}\n', 'latin1');
    const folder = RunFolder.resume(path);
    expect(folder.readTimings(anything)).toEqual([{ ms: 4 }, { ms: 1 }, { ms: 1 }]);
  });

  it('that do not fit are passed over in the same way', () => {
    const path = finishedRun();
    appendFileSync(join(path, 'timings.jsonl'), '{"unit":"a","ms":"long"}\n');
    const folder = RunFolder.resume(path);
    expect(folder.readTimings(z.object({ ms: z.number() }))).toEqual([{ ms: 1 }, { ms: 1 }, { ms: 1 }]);
  });

  it('add up over resumes and leave out what lies between', () => {
    let time = 1000;
    const now = (): number => time;
    const path = freshFolder();
    const first = RunFolder.create(path, {}, now);
    time += 50;
    expect(first.elapsedMs()).toBe(50);
    first.complete('a', {});
    time += 30;
    first.close();
    time += 5000;
    const second = RunFolder.resume(path, now);
    expect(second.elapsedMs()).toBe(80);
    time += 20;
    expect(second.elapsedMs()).toBe(100);
  });

  it('survive a kill up to the last finished unit', () => {
    let time = 0;
    const now = (): number => time;
    const path = freshFolder();
    const killed = RunFolder.create(path, {}, now);
    time = 70;
    killed.complete('a', {});
    time = 90;
    const copy = freshFolder();
    cpSync(path, copy, { recursive: true });
    writeFileSync(join(copy, 'run.lock'), read(path, 'run.lock').replace(/"pid":\d+/, '"pid":999999999'));
    time = 100;
    expect(RunFolder.resume(copy, now).elapsedMs()).toBe(70);
  });
});

describe('a disk that takes no more', () => {
  let isFull = false;
  replaceBuiltin(fs, 'writeFileSync', (real) => (file, data, options) => {
    if (isFull && typeof data === 'string' && !data.includes('elapsedMs'))
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    real(file, data, options);
  });
  it.each([
    ['steps.jsonl', (folder: RunFolder) => { folder.appendStep({}); }], // prettier-ignore
    ['timings.jsonl', (folder: RunFolder) => { folder.appendTiming('b', {}); }], // prettier-ignore
    ['units.jsonl', (folder: RunFolder) => { folder.complete('b', {}); }], // prettier-ignore
  ])('stops the run at %s in words, and loses nothing', (name, write) => {
    const path = freshFolder();
    const folder = RunFolder.create(path, {});
    isFull = true;
    const { code, message, hint } = failureOf(() => {
      write(folder);
    });
    isFull = false;
    expect(code).toBe('runtime');
    expect(message).toContain(`${name} of the run in ${path} could not be written: ENOSPC`);
    expect(message).toContain('what was finished is safe');
    expect(hint).toBe(`Make room on the disk, then resume with: mistletoe audit --resume ${path}`);
    folder.close();
    expect(existsSync(join(path, 'run.lock'))).toBe(false);
  });

  it.each([
    ['steps.jsonl', (folder: RunFolder) => { folder.appendStep({}); }], // prettier-ignore
    ['timings.jsonl', (folder: RunFolder) => { folder.appendTiming('b', {}); }], // prettier-ignore
    ['timings.jsonl', (folder: RunFolder) => { folder.complete('b', {}); }], // prettier-ignore
    ['result.json', (folder: RunFolder) => { folder.write('result.json', '{}'); }], // prettier-ignore
  ])('calls nothing safe at %s where the folder was deleted', (name, write) => {
    const path = freshFolder();
    const folder = RunFolder.create(path, {});
    rmSync(path, { recursive: true });
    const { code, message, hint } = failureOf(() => {
      write(folder);
    });
    expect(code).toBe('runtime');
    expect(message).toBe(
      `${name} could not be written: the folder ${path} no longer exists, and what the run had saved there is lost.`,
    );
    expect(`${message} ${hint}`).not.toMatch(/safe|--resume/);
    folder.close();
  });

  it('is met when reports are written, too', () => {
    const folder = RunFolder.create(freshFolder(), {});
    mkdirSync(join(folder.path, 'result.json'));
    expect(failureOf(() => folder.write('result.json', '{}'))).toMatchObject({ code: 'runtime' });
  });

  it('makes another folder the remedy where the run has not begun', () => {
    const parent = freshFolder();
    writeFileSync(parent, '');
    for (const create of [
      () => RunFolder.create(join(parent, 'run'), {}),
      () => RunFolder.create({ parent, name: 'run' }, {}),
    ]) {
      expect(failureOf(create)).toMatchObject({
        code: 'usage',
        message: expect.stringMatching(/^The folder .* cannot be created: /) as string,
        hint: 'Choose a folder that can be written.',
      });
    }
  });
});
