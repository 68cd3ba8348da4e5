import {
  existsSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeProcessTag } from '../../core/processes.js';
import { readCacheLimit } from './cache-folder.js';
import { notePath } from './cache-file.js';
import { clearCache, describeCache, trimCache } from './cache-contents.js';
import { openCheckpoint } from '../open-checkpoint.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../../../test/support/checkpoint/write-safetensors.js';
import type { CacheOptions } from './weight-cache.js';
import { prepareWeights } from './weight-cache.js';

let temporary: ReturnType<typeof makeTemporaryFolder>;
let cacheFolder: string;
beforeEach(() => {
  temporary = makeTemporaryFolder();
  cacheFolder = join(temporary.path, 'cache');
  mkdirSync(cacheFolder);
});
afterEach(() => {
  temporary.remove();
});

/** A file by the name of converted weights, last used so many hours ago, by nobody who runs. */
function writeOld(digit: string, sizeBytes: number, hoursAgo: number): string {
  const path = join(cacheFolder, `${digit.repeat(64)}.weights`);
  writeFileSync(path, new Uint8Array(sizeBytes));
  writeFileSync(notePath(path), '{}');
  setAge(notePath(path), hoursAgo);
  return path;
}

function setAge(path: string, hoursAgo: number): void {
  const time = new Date(Date.now() - hoursAgo * 3600 * 1000);
  utimesSync(path, time, time);
}

function mark(path: string, pid: number, host = hostname()): void {
  const key = path.slice(-72, -8);
  mkdirSync(join(cacheFolder, 'in-use'), { recursive: true });
  const tag = createHash('sha256').update(host).digest('hex').slice(0, 16);
  writeFileSync(join(cacheFolder, 'in-use', `${key}.${pid}.${tag}`), '');
}

/** Linux gives no process this number. */
const deadPid = 2 ** 30;

/** Of the files that writeOld has written. */
const digitsLeft = (): string =>
  readdirSync(cacheFolder)
    .flatMap((name) => /^(.)\1{63}\.weights$/.exec(name)?.[1] ?? [])
    .sort()
    .join('');

/** Each has its own model, and so a file of its own: one tensor of 1000 numbers. */
let models = 0;
async function prepare(options: CacheOptions = {}) {
  const model = join(temporary.path, `model-${(models += 1)}`);
  mkdirSync(model);
  const values = new Float32Array(1000).fill(models);
  writeSafetensors(join(model, 'model.safetensors'), { a: { dtype: 'F32', shape: [1000], values } });
  const notices: string[] = [];
  const recipe = { name: 'a', shape: [1000], parts: [{ tensor: 'a', shape: [1000] }] };
  const store = await prepareWeights(await openCheckpoint(model), [recipe], {
    ...{ cacheFolder, onNotice: (message: string) => notices.push(message) },
    ...options,
  });
  return { store, notices, model };
}

describe('the limit', () => {
  it('removes what was used longest ago until new weights fit', async () => {
    writeOld('a', 3000, 1);
    writeOld('b', 3000, 3);
    writeOld('c', 3000, 2);
    const { store, notices } = await prepare({ cacheLimitBytes: 8000 });
    expect(store.kind).toBe('file');
    expect(notices).toEqual([]);
    expect(digitsLeft()).toContain('a');
    expect(digitsLeft()).not.toMatch(/[bc]/);
    expect(existsSync(notePath(join(cacheFolder, `${'b'.repeat(64)}.weights`)))).toBe(false);
  });

  it('removes nothing while there is room, and nothing without a limit', async () => {
    writeOld('a', 3000, 1);
    await prepare({ cacheLimitBytes: 8000 });
    await prepare({ cacheLimitBytes: Infinity });
    expect(digitsLeft()).toContain('a');
  });

  it.each([
    ['this process', process.pid, hostname()],
    ['another one', process.ppid, hostname()],
    ['another host', deadPid, 'elsewhere.example'],
  ])('spares what is used by %s', async (_, pid, host) => {
    mark(writeOld('a', 3000, 3), pid, host);
    writeOld('b', 3000, 1);
    const { store } = await prepare({ cacheLimitBytes: 8000 });
    expect(store.kind).toBe('file');
    expect(digitsLeft()).toContain('a');
    expect(digitsLeft()).not.toContain('b');
  });

  it('does not heed the marks of the dead, and removes them', async () => {
    mark(writeOld('a', 3000, 3), deadPid);
    mark(writeOld('b', 3000, 3), 7, 'elsewhere.example');
    const marks = join(cacheFolder, 'in-use');
    for (const name of readdirSync(marks)) setAge(join(marks, name), 25);
    await prepare({ cacheLimitBytes: 5000 });
    expect(digitsLeft()).not.toMatch(/[ab]/);
    expect(readdirSync(marks)).toHaveLength(1); // its own
  });

  it('keeps weights larger than it in memory, says so, and removes nothing in vain', async () => {
    writeOld('a', 1000, 3);
    const { store, notices } = await prepare({ cacheLimitBytes: 4000 });
    expect(store.kind).toBe('memory');
    expect(notices).toEqual([
      expect.stringMatching(
        /take 4\.\d+ KB, more than the 4\.00 KB .* kept in memory.*MISTLETOE_CACHE_LIMIT/,
      ),
    ]);
    expect(digitsLeft()).toBe('a');
  });

  it('never removes what this process uses: the next weights stay in memory', async () => {
    const first = await prepare({ cacheLimitBytes: 7000 });
    const second = await prepare({ cacheLimitBytes: 7000 });
    expect([first.store.kind, second.store.kind]).toEqual(['file', 'memory']);
    expect(second.notices).toEqual([expect.stringMatching(/beside what is in use/)]);
    expect(first.store.kind === 'file' && existsSync(first.store.path)).toBe(true);
  });

  it('refuses what fits neither into it nor into memory', async () => {
    await expect(prepare({ cacheLimitBytes: 4000, memoryBytes: 2000 })).rejects.toMatchObject({
      code: 'runtime',
      message: expect.stringMatching(/do not fit into 2\.00 KB of memory/) as string,
      hint: expect.stringMatching(/MISTLETOE_CACHE_LIMIT/) as string,
    });
  });

  it.each([
    [{}, 64e9],
    [{ MISTLETOE_CACHE_LIMIT: '' }, 64e9],
    [{ MISTLETOE_CACHE_LIMIT: '50GB' }, 50e9],
    [{ MISTLETOE_CACHE_LIMIT: 'none' }, Infinity],
  ])('is read from %j', (environment, bytes) => {
    expect(readCacheLimit(environment)).toBe(bytes);
  });

  it('is refused where it is no size', () => {
    expect(() => readCacheLimit({ MISTLETOE_CACHE_LIMIT: '50' })).toThrow(/"50"; a size with its unit/);
  });
});

describe('trimming and clearing', () => {
  it('trims by last use', async () => {
    for (const [index, digit] of ['a', 'b', 'c', 'd'].entries()) writeOld(digit, 1000, [2, 4, 1, 3][index]!);
    const { removed, leftBytes } = await trimCache(cacheFolder, 2500);
    expect(removed.map(({ key }) => key[0])).toEqual(['b', 'd']);
    expect(leftBytes).toBe(2000);
    expect(digitsLeft()).toBe('ac');
  });

  it('clears what is Mistletoe’s, and nothing else', async () => {
    const { store, model } = await prepare();
    const path = store.kind === 'file' ? store.path : '';
    writeOld('a', 1000, 1);
    const own = ['writing', 'dead'].map((_, index) =>
      join(cacheFolder, `${'b'.repeat(64)}.77.${String(index).repeat(16)}.${'f'.repeat(16)}.tmp`),
    );
    for (const name of own) writeFileSync(name, 'x');
    setAge(own[1]!, 2);
    const tagOf = (pid: number): string => makeProcessTag().replace(/^\d+/, String(pid));
    const loading = join(cacheFolder, `program.${tagOf(process.ppid)}.onnx`);
    const killed = ['onnx', 'packed'].map((ending) =>
      join(cacheFolder, `program.${tagOf(deadPid)}.${ending}`),
    );
    for (const name of [loading, ...killed]) writeFileSync(name, 'x');
    const foreign = ['thesis.txt', 'a.weights', `${'A'.repeat(64)}.weights`, 'old.tmp', 'model.onnx'];
    for (const name of foreign) writeFileSync(join(cacheFolder, name), 'x');
    mkdirSync(join(cacheFolder, `${'c'.repeat(64)}.weights`));
    symlinkSync(join(model, 'model.safetensors'), join(cacheFolder, `${'d'.repeat(64)}.weights`));
    expect((await describeCache(cacheFolder)).foreignCount).toBe(foreign.length + 2);

    const { removed, inUse, failures } = await clearCache(cacheFolder);
    expect(failures).toEqual([]);
    expect(removed.map(({ key }) => key[0])).toEqual(['a']);
    expect(inUse.map((each) => each.path)).toEqual([path]); // by this very process
    expect(readdirSync(cacheFolder).sort()).toEqual(
      [
        ...foreign,
        'in-use',
        ...[path, notePath(path), own[0]!, loading].map((each) => each.slice(cacheFolder.length + 1)),
        ...['c', 'd'].map((digit) => `${digit.repeat(64)}.weights`),
      ].sort(),
    );
    expect(statSync(join(model, 'model.safetensors')).size).toBeGreaterThan(4000);
  });

  it('describes what is kept, for whom, and the most recent first', async () => {
    writeOld('a', 1000, 5);
    const { model } = await prepare();
    const { weights, totalBytes, foreignCount } = await describeCache(cacheFolder, 64e9);
    expect(weights).toMatchObject([
      { checkpoint: model, isInUse: true },
      { checkpoint: undefined, isInUse: false, sizeBytes: 1000 },
    ]);
    expect(totalBytes).toBe(1000 + weights[0]!.sizeBytes);
    expect(foreignCount).toBe(0);
  });

  it('takes a folder that does not exist for an empty one, and refuses a file', async () => {
    const nowhere = join(temporary.path, 'nowhere');
    expect(await describeCache(nowhere)).toMatchObject({ weights: [], totalBytes: 0 });
    expect(await clearCache(nowhere)).toMatchObject({ removed: [], failures: [] });
    expect(existsSync(nowhere)).toBe(false);
    writeFileSync(nowhere, '');
    await expect(trimCache(nowhere, 0)).rejects.toMatchObject({ code: 'usage' });
  });
});

describe('compiled kernels', () => {
  it('go with everything, and are neither counted nor trimmed', async () => {
    const folder = join(cacheFolder, 'kernels');
    mkdirSync(folder);
    writeFileSync(join(folder, `${'a'.repeat(64)}.cubin`), 'code');
    writeFileSync(join(folder, 'mine.txt'), '');
    expect(await describeCache(cacheFolder)).toMatchObject({ totalBytes: 0, foreignCount: 0 });
    await trimCache(cacheFolder, 0);
    expect(readdirSync(folder)).toHaveLength(2);
    await clearCache(cacheFolder);
    expect(readdirSync(folder)).toEqual(['mine.txt']);
  });
});
