import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hashOf } from '../../../test/support/hub-server.js';
import { findCachedModel, type HubSettings, nameModel, parseHubId, readHubSettings } from './hub-settings.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';

const commit = 'c0ffee'.padEnd(40, '0');
const older = 'beef'.padEnd(40, '0');

let temporary: ReturnType<typeof makeTemporaryFolder>;
let cache: string;
let settings: HubSettings;
beforeEach(() => {
  temporary = makeTemporaryFolder();
  cache = join(temporary.path, 'hub');
  settings = readHubSettings({ environment: { HF_HUB_CACHE: cache }, home: '/nobody' });
});
afterEach(() => {
  temporary.remove();
});

const put = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
};

/** As huggingface_hub lays it out. */
function addSnapshot(repository: string, at: string, contents: Readonly<Record<string, string>>): string {
  const root = join(cache, `models--${repository.replace('/', '--')}`);
  for (const [path, text] of Object.entries(contents)) {
    const blob = join(root, 'blobs', hashOf(path, Buffer.from(text)));
    const link = join(root, 'snapshots', at, path);
    put(blob, text);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(relative(dirname(link), blob), link);
  }
  return join(root, 'snapshots', at);
}

const refer = (repository: string, revision: string, text: string): void => {
  put(join(cache, `models--${repository.replace('/', '--')}`, 'refs', revision), text);
};
const find = (text: string): Promise<string> => findCachedModel(parseHubId(text)!, settings);

const index = JSON.stringify({ weight_map: { a: 'model-1.safetensors', b: 'model-2.safetensors' } });
const whole = { 'config.json': '{}', 'model.safetensors': 'weights' };
const sharded = {
  'model.safetensors.index.json': index,
  'model-1.safetensors': 'one',
  'model-2.safetensors': 'two',
};

describe('a model in the cache of the hub', () => {
  it('is found by its branch, a pull request, and its commit', async () => {
    const folder = addSnapshot('org/tiny', commit, whole);
    const before = addSnapshot('org/tiny', older, sharded);
    refer('org/tiny', 'main', commit);
    refer('org/tiny', 'refs/pr/1', `${older}\n`);
    await expect(find('org/tiny')).resolves.toBe(folder);
    await expect(find('org/tiny@main')).resolves.toBe(folder);
    await expect(find('org/tiny@refs/pr/1')).resolves.toBe(before);
    await expect(find(`org/tiny@${older}`)).resolves.toBe(before);
  });

  it.each([
    ['nothing at all', () => undefined],
    ['another model', () => { refer('org/other', 'main', commit); addSnapshot('org/other', commit, whole); }], // prettier-ignore
    ['no reference', () => addSnapshot('org/tiny', commit, whole)],
    ['a reference to nothing', () => { refer('org/tiny', 'main', commit); }], // prettier-ignore
    ['a reference that leads out', () => { refer('org/tiny', 'main', '../../../..'); addSnapshot('org/tiny', commit, whole); }], // prettier-ignore
  ])('is not there with %s: says where it looked and what to do', async (_, prepare) => {
    prepare();
    await expect(find('org/tiny')).rejects.toMatchObject({
      code: 'usage',
      message: `There is no folder org/tiny, and no model of that name in the Hugging Face cache in ${cache}.`,
      hint: expect.stringMatching(
        /^--download fetches it from huggingface\.co; how large it is, the hub says/,
      ) as string,
    });
  });

  it.each([
    ['a config alone', { 'config.json': '{}' }, undefined, 'weights'],
    ['a link to nothing', whole, 'model.safetensors', 'model.safetensors'],
    ['a shard too few', sharded, 'model-2.safetensors', 'model-2.safetensors'],
  ])('does not count with %s', async (_, contents: Readonly<Record<string, string>>, gone, message) => {
    const folder = addSnapshot('org/tiny', commit, contents);
    refer('org/tiny', 'main', commit);
    if (gone !== undefined) rmSync(join(folder, '../../blobs', hashOf(gone, Buffer.from(contents[gone]!))));
    await expect(find('org/tiny')).rejects.toMatchObject({
      message: `Of org/tiny only a part is in the Hugging Face cache: ${folder} lacks ${message}.`,
      hint: '--download fetches the rest from huggingface.co.',
    });
  });

  it('is refused by name where it is GGUF', async () => {
    addSnapshot('org/tiny', commit, { 'tiny.Q4.gguf': 'GGUF' });
    refer('org/tiny', 'main', commit);
    await expect(find('org/tiny')).rejects.toThrow(/tiny\.Q4\.gguf is a GGUF file; folders are read if/);
  });

  it('is not promised a download while the hub is switched off', async () => {
    settings = { ...settings, isOffline: true };
    await expect(find('org/tiny')).rejects.toMatchObject({
      hint: expect.stringContaining('HF_HUB_OFFLINE is set: unset it for that.') as string,
    });
  });
});

describe('nameModel', () => {
  it.each([
    ['/models/vicuna', 'vicuna'],
    ['/models/vicuna/', 'vicuna'],
    [`/hub/models--lmsys--vicuna-7b/snapshots/${commit}`, 'vicuna-7b'],
    [`/hub/models--lmsys--vicuna-7b/snapshots/${commit}/`, 'vicuna-7b'],
    ['/hub/models--lmsys--vicuna-7b', 'models--lmsys--vicuna-7b'],
  ])('%s is %s', (folder, name) => {
    expect(nameModel(folder)).toBe(name);
  });
});
