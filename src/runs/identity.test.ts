import { appendFileSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../../test/support/checkpoint/write-safetensors.js';
import { identifyModel } from './identity.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;

const describing = [
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer.model',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
];

function writeModel(): string {
  const folder = join(temporary.path, `${(count += 1)}`, 'model');
  mkdirSync(folder, { recursive: true });
  writeSafetensors(join(folder, 'model.safetensors'), {
    a: { dtype: 'F16', shape: [2, 3], values: [1, 2, 3, 4, 5, 6] },
    b: { dtype: 'F32', shape: [1], values: [4] },
  });
  for (const name of describing) writeFileSync(join(folder, name), '{"a": "0"}');
  return folder;
}

/** Each time with a cache of its own: two writes may fall into one tick of the clock that a memo relies on. */
const identify = (folder: string) => identifyModel(folder, join(temporary.path, `cache-${(count += 1)}`));

describe('the identity of a model', () => {
  it('has the folder’s name, its parameters and a hash, wherever the folder lies', async () => {
    const [one, other] = [await identify(writeModel()), await identify(writeModel())];
    expect(one).toEqual({
      name: 'model',
      parameterCount: 7,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    });
    expect(other).toEqual(one);
  });

  it.each([...describing, 'model.safetensors'])('changes with one byte of %s', async (name) => {
    const folder = writeModel();
    const before = await identify(folder);
    const bytes = readFileSync(join(folder, name));
    bytes[bytes.length - 3]! ^= 1;
    writeFileSync(join(folder, name), bytes);
    expect((await identify(folder)).sha256).not.toBe(before.sha256);
  });

  it.each(describing)('changes when %s comes or goes', async (name) => {
    const folder = writeModel();
    const before = await identify(folder);
    rmSync(join(folder, name));
    const without = await identify(folder);
    expect(without.sha256).not.toBe(before.sha256);
    writeFileSync(join(folder, name), '{"a": "0"}');
    expect((await identify(folder)).sha256).toBe(before.sha256);
  });

  it('changes when two files are exchanged, and not with files that decide nothing', async () => {
    const folder = writeModel();
    appendFileSync(join(folder, 'tokenizer.json'), ' ');
    const before = await identify(folder);
    writeFileSync(join(folder, 'README.md'), 'hello');
    expect((await identify(folder)).sha256).toBe(before.sha256);
    renameSync(join(folder, 'tokenizer.json'), join(folder, 'aside'));
    renameSync(join(folder, 'tokenizer_config.json'), join(folder, 'tokenizer.json'));
    renameSync(join(folder, 'aside'), join(folder, 'tokenizer_config.json'));
    expect((await identify(folder)).sha256).not.toBe(before.sha256);
  });

  it('needs no cache folder: one that cannot be made changes nothing', async () => {
    const folder = writeModel();
    const file = join(temporary.path, `file-${(count += 1)}`);
    writeFileSync(file, '');
    expect(await identifyModel(folder, join(file, 'cache'))).toEqual(await identify(folder));
  });
});
