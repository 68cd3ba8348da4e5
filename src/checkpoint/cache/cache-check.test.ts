import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  readFileSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { chmod, cp, open, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { WeightStore } from '../../runtime/weights.js';
import { verifyCache } from './cache-contents.js';
import { checkCacheFile, notePath, recordCheck } from './cache-file.js';
import { identifyFile } from './content-hash.js';
import { CachedModel, pathOf, waitForFileTick } from '../../../test/support/checkpoint/cached-model.js';
import type { CacheOptions } from './weight-cache.js';

const values = Float32Array.from({ length: 5000 }, (_, index) => index);
const recipes = [{ name: 'a', shape: [5000], parts: [{ tensor: 'a', shape: [5000] }] }];
const model = new CachedModel(recipes, { a: { dtype: 'F32', shape: [5000], values } });

async function prepare(
  options: CacheOptions = {},
): Promise<{ path: string; store: WeightStore; notices: string[] }> {
  const notices: string[] = [];
  const onNotice = (message: string) => notices.push(message);
  const store = await model.prepare({ onNotice, ...options });
  return { path: pathOf(store), store, notices };
}

function flipBit(path: string): void {
  chmodSync(path, 0o600);
  const bytes = readFileSync(path);
  bytes[9999]! ^= 1;
  writeFileSync(path, bytes);
}

/** As a failing disk would: other bytes, and nothing that the file system knows has changed. */
async function flipSilently(path: string): Promise<void> {
  const { atime, mtime } = statSync(path);
  flipBit(path);
  utimesSync(path, atime, mtime);
  // No program can set ctime back; a note written now describes the damaged file as the right one.
  await recordCheck(path, await identifyFile(path));
}

const isWhole = (path: string): boolean =>
  new Float32Array(Uint8Array.from(readFileSync(path).subarray(0, 20_000)).buffer).every(
    (value, index) => value === index,
  );

/** With other bytes in it, a file that is believed is a file that was not read. */
describe('a cache file', () => {
  it('is not read while it is known to be unchanged', async () => {
    const { path } = await prepare();
    await flipSilently(path);
    const again = await prepare();
    expect(again.notices).toEqual([]);
    expect(isWhole(path)).toBe(false);
  });

  it('is made anew after one flipped bit', async () => {
    const { path } = await prepare();
    await waitForFileTick(path);
    flipBit(path);
    const again = await prepare();
    expect(again.notices).toEqual([expect.stringMatching(/damaged and is made anew/)]);
    expect(isWhole(path)).toBe(true);
  });

  it.each<[string, (path: string) => Promise<void>]>([
    ['was touched', (path) => utimes(path, new Date(), new Date())],
    ['has another mode', (path) => chmod(path, 0o600)],
    ['was copied', (path) => cp(path, `${path}.2`).then(() => rename(`${path}.2`, path))],
    ['has lost its note', (path) => rm(notePath(path))],
    ['has a note of garbage', (path) => writeFile(notePath(path), '{"identity":')],
    [
      'has an edited note',
      (path) =>
        writeFile(notePath(path), readFileSync(notePath(path), 'utf8').replace('checkpoint', 'identity')),
    ],
  ])('is read once when it %s, and then is known again', async (_, disturb) => {
    const { path } = await prepare();
    await flipSilently(path);
    await waitForFileTick(path);
    await disturb(path); // it is read, and found to be damaged
    expect((await prepare()).notices).toEqual([expect.stringMatching(/damaged/)]);
    expect(isWhole(path)).toBe(true);

    await disturb(path); // it is read, and found to be whole
    const { ino } = statSync(path);
    expect((await prepare()).notices).toEqual([]);
    expect(statSync(path).ino).toBe(ino);
    await flipSilently(path); // known, and not read
    expect((await prepare()).notices).toEqual([]);
    expect(isWhole(path)).toBe(false);
  });

  it('is read when that is asked for', async () => {
    const { path } = await prepare();
    await flipSilently(path);
    const again = await prepare({ verifyCache: true });
    expect(again.notices).toEqual([expect.stringMatching(/damaged/)]);
    expect(isWhole(path)).toBe(true);
    expect((await prepare({ verifyCache: true })).notices).toEqual([]);
  });

  it('is found by verifyCache, and not believed afterwards', async () => {
    const { path } = await prepare();
    expect((await verifyCache(model.cacheFolder)).map(({ result }) => result)).toEqual(['whole']);
    await flipSilently(path);
    expect((await verifyCache(model.cacheFolder)).map(({ result }) => result)).toEqual(['damaged']);
    expect((await prepare()).notices).toEqual([expect.stringMatching(/damaged/)]);
    expect(isWhole(path)).toBe(true);
  });

  it('keeps its times while it is used: only the note’s change', async () => {
    const { path } = await prepare();
    const before = statSync(path, { bigint: true });
    const past = new Date('2020-01-01');
    utimesSync(notePath(path), past, past);
    await prepare();
    const after = statSync(path, { bigint: true });
    expect([after.mtimeNs, after.ctimeNs]).toEqual([before.mtimeNs, before.ctimeNs]);
    expect(statSync(notePath(path)).mtimeMs).toBeGreaterThan(past.getTime());
  });

  it('is read-only, and replaced rather than written', async () => {
    const { path } = await prepare();
    expect(statSync(path).mode & 0o777).toBe(0o400);
    const { ino } = statSync(path);
    await waitForFileTick(path);
    flipBit(path);
    await prepare();
    expect(statSync(path).ino).not.toBe(ino);
    expect(statSync(path).mode & 0o777).toBe(0o400);
  });
});

it('a file of another format is told apart from a damaged one', async () => {
  const { path } = await prepare();
  const bytes = readFileSync(path);
  const footerStart = bytes.indexOf('{"format":');
  bytes.write('{"format":1', footerStart);
  createHash('sha256')
    .update(bytes.subarray(footerStart, -48))
    .digest()
    .copy(bytes, bytes.length - 32);
  chmodSync(path, 0o600);
  writeFileSync(path, bytes);
  expect((await verifyCache(model.cacheFolder)).map(({ result }) => result)).toEqual(['other-format']);
});

describe('a cache file that is replaced while it is checked', () => {
  const replaceDuringCheck = async (change: (copy: string) => void) => {
    const { path } = await prepare();
    const handle = await open(path);
    const prototype = Object.getPrototypeOf(handle) as typeof handle;
    await handle.close();
    vi.spyOn(prototype, 'read').mockImplementationOnce(function (this: typeof handle, ...given: unknown[]) {
      copyFileSync(path, `${path}.2`);
      change(`${path}.2`);
      renameSync(`${path}.2`, path);
      return this.read(...(given as []));
    });
    const checked = await checkCacheFile(path, basename(path, '.weights'), true);
    vi.restoreAllMocks();
    return { checked, identity: await identifyFile(path) };
  };

  it('by another process with the same weights is used', async () => {
    const { checked, identity } = await replaceDuringCheck(() => undefined);
    expect(checked).toMatchObject({ result: 'whole', identity });
  });

  it('by a damaged one is not', async () => {
    expect((await replaceDuringCheck(flipBit)).checked.result).toBe('damaged');
  });
});
