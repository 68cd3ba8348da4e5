import { chmodSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { WeightStore } from '../../runtime/weights.js';
import type { FileOutput } from '../written-folder.js';
import { defaultCacheFolder } from '../../core/files.js';
import { hostTag } from '../../core/processes.js';
import { openCheckpoint } from '../open-checkpoint.js';
import type { WritableTensors } from '../../../test/support/checkpoint/encode-values.js';
import { CachedModel, pathOf, waitForFileTick } from '../../../test/support/checkpoint/cached-model.js';
import { openCacheOutput, prepareWeights } from './weight-cache.js';
import type { CacheOptions } from './weight-cache.js';

const recipes = [
  { name: 'a', shape: [2, 3], parts: [{ tensor: 'a', shape: [2, 3] }] },
  { name: 'aT', shape: [3, 2], parts: [{ tensor: 'a', shape: [2, 3], transpose: true }] },
  { name: 'b', shape: [], parts: [{ tensor: 'b', shape: [] }] },
];
const expected = { a: [1, 2, 3, 4, 5, 6], aT: [1, 4, 2, 5, 3, 6], b: [7] };

const tensors = (first: number): WritableTensors => ({
  a: { dtype: 'F16', shape: [2, 3], values: [first, 2, 3, 4, 5, 6] },
  b: { dtype: 'BF16', shape: [], values: [7] },
});
const model = new CachedModel(recipes, tensors(1));
const prepare = (options?: CacheOptions): Promise<WeightStore> => model.prepare(options);

function valuesOf(store: WeightStore): Record<string, number[]> {
  if (store.kind === 'memory') {
    return Object.fromEntries([...store.tensors].map(([name, { data }]) => [name, Array.from(data)]));
  }
  if (store.kind !== 'file') throw new Error('expected a file');
  const file = readFileSync(store.path);
  return Object.fromEntries(
    [...store.tensors].map(([name, { offsetBytes, sizeBytes }]) => {
      expect(offsetBytes % 4096).toBe(0);
      return [
        name,
        Array.from(
          new Float32Array(Uint8Array.from(file.subarray(offsetBytes, offsetBytes + sizeBytes)).buffer),
        ),
      ];
    }),
  );
}

describe('prepareWeights', () => {
  it('writes the weights once and finds them again', async () => {
    const store = await prepare();
    expect(valuesOf(store)).toEqual(expected);
    expect(store.tensors.get('aT')?.shape).toEqual([3, 2]);
    const before = statSync(pathOf(store), { bigint: true });
    const refuseWriting = () => Promise.reject(new Error('must not write'));
    const again = await prepare({ openOutput: refuseWriting });
    expect(again).toMatchObject({ kind: 'file', path: pathOf(store), tensors: store.tensors });
    expect(statSync(pathOf(store), { bigint: true }).mtimeNs).toBe(before.mtimeNs);
    expect(model.cacheNames('.tmp')).toEqual([]);
  });

  it('removes what a killed process left, although nothing is converted', async () => {
    await prepare();
    const host = hostTag();
    const left = (pid: number, ending: string): string =>
      `program.${pid}.${host}.${'0'.repeat(16)}.${ending}`;
    const files = ['onnx', 'packed'].flatMap((ending) => [
      left(999_999_999, ending),
      left(process.pid, ending),
    ]);
    for (const name of files) writeFileSync(join(model.cacheFolder, name), '');
    await prepare();
    expect(model.cacheNames('.onnx')).toEqual([left(process.pid, 'onnx')]);
    expect(model.cacheNames('.packed')).toEqual([left(process.pid, 'packed')]);
  });

  it('keeps apart what differs in content or recipes, and shares what does not', async () => {
    const first = pathOf(await prepare());
    model.write(tensors(9));
    const store = await prepare();
    expect(pathOf(store)).not.toBe(first);
    expect(valuesOf(store).a![0]).toBe(9);
    const fewer = await prepareWeights(await openCheckpoint(model.folder), recipes.slice(0, 1), {
      cacheFolder: model.cacheFolder,
    });
    expect(pathOf(fewer)).not.toBe(pathOf(store));
    model.write(tensors(1));
    expect(pathOf(await prepare())).toBe(first);
  });

  it.each<[string, (path: string) => void]>([
    [
      'truncated',
      (path) => {
        truncateSync(path, statSync(path).size - 1);
      },
    ],
    [
      'empty',
      (path) => {
        truncateSync(path, 0);
      },
    ],
    [
      'longer',
      (path) => {
        writeFileSync(path, 'x', { flag: 'a' });
      },
    ],
    [
      'changed in the data',
      (path) => {
        flip(path, 5);
      },
    ],
    [
      'changed in the padding',
      (path) => {
        flip(path, 4000);
      },
    ],
    [
      'changed in the footer',
      (path) => {
        flip(path, statSync(path).size - 60);
      },
    ],
    [
      'changed in the trailer',
      (path) => {
        flip(path, statSync(path).size - 1);
      },
    ],
  ])('rebuilds a cache file that is %s', async (_, damage) => {
    const path = pathOf(await prepare());
    const good = readFileSync(path);
    await waitForFileTick(path);
    chmodSync(path, 0o600);
    damage(path);
    expect(readFileSync(path).equals(good)).toBe(false);
    const notices: string[] = [];
    const store = await prepare({ onNotice: (message) => notices.push(message) });
    expect(valuesOf(store)).toEqual(expected);
    expect(readFileSync(path).equals(good)).toBe(true);
    expect(notices).toEqual([expect.stringMatching(/damaged/)]);
  });

  it('does not trust a damaged hash memo', async () => {
    const store = await prepare();
    const [memo] = model.cacheNames('.hash.json');
    for (const text of ['', '{}', '{"identity": 1, "sha256": "../../x"}']) {
      writeFileSync(join(model.cacheFolder, memo!), text);
      expect(pathOf(await prepare())).toBe(pathOf(store));
    }
  });

  it.each([0, 1, 3])('keeps the weights in memory when the disk is full after %i writes', async (room) => {
    const notices: string[] = [];
    const full = () =>
      Promise.reject(Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' }));
    const openOutput = async (path: string): Promise<FileOutput> => {
      const output = await openCacheOutput(path);
      let writes = 0;
      return { ...output, write: (bytes) => ((writes += 1) > room ? full() : output.write(bytes)) };
    };
    const store = await prepare({ openOutput, onNotice: (message) => notices.push(message) });
    expect(store.kind).toBe('memory');
    expect(valuesOf(store)).toEqual(expected);
    expect(notices).toEqual([expect.stringMatching(/could not be written .*ENOSPC.*kept in memory/)]);
    expect(model.cacheNames('.tmp')).toEqual([]);
    expect(model.cacheNames('.weights')).toEqual([]);
  });

  it('keeps the weights in memory when the cache folder cannot be made', async () => {
    writeFileSync(join(model.parent, 'file'), '');
    const notices: string[] = [];
    const store = await prepare({
      cacheFolder: join(model.parent, 'file', 'cache'),
      onNotice: (message) => notices.push(message),
    });
    expect(store.kind).toBe('memory');
    expect(valuesOf(store)).toEqual(expected);
    expect(notices).toHaveLength(1);
  });

  it('does not hide a broken checkpoint behind the fallback', async () => {
    const checkpoint = await openCheckpoint(model.folder);
    truncateSync(model.file, statSync(model.file).size - 2);
    const notices: string[] = [];
    const onNotice = (message: string) => notices.push(message);
    await expect(
      prepareWeights(checkpoint, recipes, { cacheFolder: model.cacheFolder, onNotice }),
    ).rejects.toThrow(/bytes/);
    expect(notices).toEqual([]);
    expect(model.cacheNames('.tmp')).toEqual([]);
  });

  it('refuses weights that change while they are read', async () => {
    const openOutput = (path: string): Promise<FileOutput> => {
      model.write(tensors(9));
      return openCacheOutput(path);
    };
    await expect(prepare({ openOutput })).rejects.toThrow(/changed while they were read/);
    expect(model.cacheNames('.weights')).toEqual([]);
  });

  it('ends well when many prepare at once', async () => {
    const stores = await Promise.all(Array.from({ length: 6 }, () => prepare()));
    for (const store of stores) expect(valuesOf(store)).toEqual(expected);
    expect(model.cacheNames('.weights')).toHaveLength(1);
    expect(model.cacheNames('.tmp')).toEqual([]);
  });
});

describe('defaultCacheFolder', () => {
  it.each<[Record<string, string>, NodeJS.Platform, string]>([
    [{ MISTLETOE_CACHE: '/own', XDG_CACHE_HOME: '/xdg' }, 'linux', '/own'],
    [{ MISTLETOE_CACHE: '', XDG_CACHE_HOME: '/xdg' }, 'linux', '/xdg/mistletoe'],
    [{ XDG_CACHE_HOME: 'relative' }, 'linux', '/home/me/.cache/mistletoe'],
    [{}, 'darwin', '/home/me/Library/Caches/mistletoe'],
  ])('%j on %s', (environment, platform, folder) => {
    expect(defaultCacheFolder({ environment, platform, home: '/home/me' })).toBe(folder);
  });
});

function flip(path: string, position: number): void {
  const bytes = readFileSync(path);
  bytes[position]! ^= 1;
  writeFileSync(path, bytes);
}
