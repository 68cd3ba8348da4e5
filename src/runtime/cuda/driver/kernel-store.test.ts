import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { KernelStore } from './kernel-compiler.js';

const root = mkdtempSync(join(tmpdir(), 'mistletoe-kernels-'));
afterAll(() => {
  rmSync(root, { recursive: true });
});
let folder: string;
let compiled: string[];
beforeEach(() => {
  folder = join(mkdtempSync(join(root, 'case-')), 'kernels');
  compiled = [];
});

function find(source: string, identity = 'sm_90', store = new KernelStore(folder)): string {
  const code = store.find(identity, source, () => {
    compiled.push(`${identity} ${source}`);
    return Buffer.from(`code of ${source} for ${identity}`);
  });
  return Buffer.from(code).toString();
}

describe('compiled kernels', () => {
  it('are compiled once, and found by the next process', () => {
    expect(find('a')).toBe('code of a for sm_90');
    expect(find('a')).toBe('code of a for sm_90');
    expect(compiled).toEqual(['sm_90 a']);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it('are others for another source, architecture or compiler', () => {
    expect([find('a'), find('b'), find('a', 'sm_80')]).toEqual([
      'code of a for sm_90',
      'code of b for sm_90',
      'code of a for sm_80',
    ]);
    expect(compiled).toHaveLength(3);
  });

  it.each([
    [
      'a changed byte',
      (bytes: Buffer) => Buffer.from(bytes.map((byte, at) => (at === 40 ? byte ^ 1 : byte))),
    ],
    ['a missing end', (bytes: Buffer) => bytes.subarray(0, -1)],
    ['nothing left', () => Buffer.alloc(0)],
  ])('are compiled anew where a file has %s', (_, damage) => {
    find('a');
    const path = join(folder, readdirSync(folder)[0]!);
    writeFileSync(path, damage(readFileSync(path)));
    expect(find('a')).toBe('code of a for sm_90');
    expect(find('a')).toBe('code of a for sm_90');
    expect(compiled).toHaveLength(2);
  });

  it('are kept up to a number, those that were used last', () => {
    const store = new KernelStore(folder, 2);
    const age = (seconds: number): void => {
      for (const name of readdirSync(folder)) {
        const then = Date.now() / 1000 - seconds;
        utimesSync(join(folder, name), then, then);
      }
    };
    find('a', 'sm_90', store);
    find('b', 'sm_90', store);
    age(60);
    find('a', 'sm_90', store);
    find('c', 'sm_90', store);
    expect(readdirSync(folder)).toHaveLength(2);
    find('a', 'sm_90', store);
    expect(compiled).toEqual(['sm_90 a', 'sm_90 b', 'sm_90 c']);
  });

  it('are compiled each time where the folder cannot be made', () => {
    writeFileSync(join(root, 'file'), '');
    const store = new KernelStore(join(root, 'file', 'kernels'));
    find('a', 'sm_90', store);
    expect(find('a', 'sm_90', store)).toBe('code of a for sm_90');
    expect(compiled).toHaveLength(2);
  });

  it('that fail to compile leave nothing behind', () => {
    const store = new KernelStore(folder);
    expect(() =>
      store.find('sm_90', 'a', () => {
        throw new Error('no');
      }),
    ).toThrow('no');
    expect(find('a', 'sm_90', store)).toBe('code of a for sm_90');
  });
});

describe.skipIf(process.getuid === undefined)('a cache that another user can forge', () => {
  const stranger = 12_345;
  const isRoot = process.getuid?.() === 0;
  const onlyFile = (): string => join(folder, readdirSync(folder)[0]!);

  it.each<readonly [string, (path: string) => void]>([
    [
      'a file that others can write',
      (path) => {
        chmodSync(path, 0o606);
      },
    ],
    [
      'a link',
      (path) => {
        renameSync(path, join(folder, '..', 'elsewhere'));
        symlinkSync(join(folder, '..', 'elsewhere'), path);
      },
    ],
  ])('is not read: %s is compiled anew and replaced', (_, change) => {
    find('a');
    change(onlyFile());
    expect(find('a')).toBe('code of a for sm_90');
    expect(compiled).toHaveLength(2);
    expect(find('a')).toBe('code of a for sm_90');
    expect(compiled).toHaveLength(2);
  });

  it('is neither read nor written where others can write the folder', () => {
    find('a');
    chmodSync(folder, 0o777);
    find('a');
    find('b');
    expect(compiled).toEqual(['sm_90 a', 'sm_90 a', 'sm_90 b']);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it('is made for this user alone, whatever the umask', () => {
    const umask = process.umask(0);
    try {
      find('a');
    } finally {
      process.umask(umask);
    }
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    find('a');
    expect(compiled).toHaveLength(1);
  });

  it.skipIf(!isRoot)('is not used where another user owns the file or the folder', () => {
    find('a');
    chownSync(onlyFile(), stranger, stranger);
    find('a');
    expect(compiled).toHaveLength(2);
    chownSync(folder, stranger, stranger);
    find('a');
    expect(compiled).toHaveLength(3);
  });
});
