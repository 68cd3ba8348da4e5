/** Cache folders as they should not be: nothing crashes, no wrong weights are used, nobody else's file is touched. */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { waitForFileTick } from '../support/checkpoint/cached-model.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import type { CacheOptions } from '../../src/checkpoint/cache/weight-cache.js';
import { decodePlain } from '../../src/decode/generate.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { writeDecoder } from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

let target: string;
let expected: readonly number[];
beforeAll(async () => {
  target = writeDecoder(join(temporary.path, 'target'));
  expected = (await decode(newFolder())).tokenIds;
});

let folders = 0;
const newFolder = (): string => join(temporary.path, `cache-${(folders += 1)}`);

async function decode(cacheFolder: string, options: CacheOptions = {}, checkpoint = target) {
  const notices: string[] = [];
  const onNotice = (message: string) => notices.push(message);
  const runtime = createOnnxRuntime({ threads: 1 }); // a new one: it keeps the programs that it has loaded
  try {
    const model = await loadModel(checkpoint, { runtime, cacheFolder, onNotice, ...options });
    const request = { promptIds: [1, 2, 3], sampling: { temperature: 0 }, seed: 0, stopIds: [] };
    const { tokenIds } = await decodePlain(model, { ...request, maxNewTokens: 8 });
    return { tokenIds, notices };
  } finally {
    await runtime.dispose();
  }
}

const find = (folder: string, ending: string): string =>
  join(
    folder,
    readdirSync(folder).find((name) => name.endsWith(ending))!,
  );

it('a cache folder may be named relative to where the command runs', async () => {
  const cache = newFolder();
  expect((await decode(relative(process.cwd(), cache))).tokenIds).toEqual(expected);
  expect(existsSync(cache)).toBe(true);
});

describe('in the place of converted weights', () => {
  const disturb = async (change: (weights: string, folder: string) => void) => {
    const folder = newFolder();
    await decode(folder);
    const weights = find(folder, '.weights');
    await waitForFileTick(weights);
    change(weights, folder);
    return { folder, weights, ...(await decode(folder)) };
  };

  it('a link, to the right file even: it is replaced, and what it named is left', async () => {
    const elsewhere = join(temporary.path, 'elsewhere.bin');
    const { weights, tokenIds, notices } = await disturb((path) => {
      renameSync(path, elsewhere);
      symlinkSync(elsewhere, path);
    });
    expect(tokenIds).toEqual(expected);
    expect(notices).toEqual([expect.stringMatching(/made anew/)]);
    expect(lstatSync(weights).isFile()).toBe(true);
    expect(statSync(elsewhere).size).toBe(statSync(weights).size);
  });

  it('a link to nothing, and one to itself', async () => {
    for (const aim of ['/no/such/file', undefined]) {
      const { tokenIds } = await disturb((path) => {
        renameSync(path, `${path}.away`);
        symlinkSync(aim ?? path, path);
      });
      expect(tokenIds).toEqual(expected);
    }
  });

  it('a folder: it stays, and the weights are kept in memory', async () => {
    const { weights, tokenIds, notices } = await disturb((path) => {
      renameSync(path, `${path}.away`);
      mkdirSync(path);
      writeFileSync(join(path, 'thesis.txt'), 'years of work');
    });
    expect(tokenIds).toEqual(expected);
    expect(notices).toEqual([expect.stringMatching(/is a folder\. The weights are kept in memory/)]);
    expect(readFileSync(join(weights, 'thesis.txt'), 'utf8')).toBe('years of work');
  });

  it('a whole file of other weights under this one’s name', async () => {
    const other = newFolder();
    const checkpoint = writeDecoder(join(temporary.path, 'other'), undefined, 99);
    expect((await decode(other, {}, checkpoint)).tokenIds).not.toEqual(expected);
    const { tokenIds, notices } = await disturb((path) => {
      chmodSync(path, 0o600);
      writeFileSync(path, readFileSync(find(other, '.weights')));
    });
    expect(notices).toEqual([expect.stringMatching(/damaged/)]);
    expect(tokenIds).toEqual(expected);
  });
});

describe('records', () => {
  const contents: readonly [string, string][] = [
    ['nothing', ''],
    ['garbage', '\0\u001b[31m{{{{'],
    ['another type', '[1, 2, 3]'],
    ['a number for a hash', '{"seal": 1, "record": {"identity": "x", "sha256": 12}}'],
    ['a hash of another kind', '{"seal": "", "record": {"identity": "x", "sha256": "d41d8cd98f00b204"}}'],
    ['deep nesting', '['.repeat(200_000)],
    ['a megabyte', ' '.repeat(2 ** 20)],
  ];

  it.each(contents)('of %s cost nothing but time', async (_, text) => {
    const folder = newFolder();
    await decode(folder);
    for (const ending of ['.hash.json', '.weights.json']) writeFileSync(find(folder, ending), text);
    expect(await decode(folder)).toEqual({ tokenIds: expected, notices: [] });
    expect(readdirSync(folder).filter((name) => name.endsWith('.weights'))).toHaveLength(1);
  });

  it('with one digit of a hash changed are not believed', async () => {
    const folder = newFolder();
    await decode(folder);
    const path = find(folder, '.hash.json');
    const text = readFileSync(path, 'utf8');
    writeFileSync(
      path,
      text.replace(/("sha256":")(.)/, (_, name: string, digit: string) => name + (digit === '0' ? '1' : '0')),
    );
    expect(readFileSync(path, 'utf8')).not.toBe(text);
    expect(await decode(folder)).toEqual({ tokenIds: expected, notices: [] });
    expect(readFileSync(path, 'utf8')).toBe(text);
    expect(readdirSync(folder).filter((name) => name.endsWith('.weights'))).toHaveLength(1);
  });

  it('that are links, folders or in a folder that is none', async () => {
    const folder = newFolder();
    await decode(folder);
    const note = find(folder, '.weights.json');
    const aim = join(temporary.path, `aim-${(folders += 1)}`);
    writeFileSync(aim, 'mine');
    const { mtimeMs } = statSync(aim);
    renameSync(note, `${note}.away`);
    symlinkSync(aim, note);
    const hash = find(folder, '.hash.json');
    renameSync(hash, `${hash}.away`);
    mkdirSync(hash);
    renameSync(join(folder, 'in-use'), join(folder, 'was-in-use'));
    writeFileSync(join(folder, 'in-use'), '');
    expect(await decode(folder)).toEqual({ tokenIds: expected, notices: [] });
    expect([readFileSync(aim, 'utf8'), statSync(aim).mtimeMs]).toEqual(['mine', mtimeMs]);
  });
});
