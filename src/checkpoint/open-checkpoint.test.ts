import { mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { findProblems, openCheckpoint } from './open-checkpoint.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../../test/support/checkpoint/write-safetensors.js';
import { writeTorchFile } from '../../test/support/checkpoint/write-torch-file.js';

const one = { dtype: 'F32', shape: [1], values: [1] } as const;

let temporary: ReturnType<typeof makeTemporaryFolder>;
let folder: string;
beforeEach(() => {
  temporary = makeTemporaryFolder();
  folder = temporary.path;
});
afterEach(() => {
  temporary.remove();
});

function put(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

function writeShards(): void {
  writeSafetensors(join(folder, 'model-1.safetensors'), { a: one, b: one });
  writeSafetensors(join(folder, 'model-2.safetensors'), { c: one });
  writeIndex({ a: 'model-1.safetensors', b: 'model-1.safetensors', c: 'model-2.safetensors' });
}

function writeIndex(weightMap: unknown): void {
  put('model.safetensors.index.json', JSON.stringify({ metadata: {}, weight_map: weightMap }));
}

async function refusal(): Promise<MistletoeError> {
  const failure: unknown = await openCheckpoint(folder).then(
    () => 'opened',
    (cause: unknown) => cause,
  );
  expect(failure).toBeInstanceOf(MistletoeError);
  expect((failure as MistletoeError).code).toBe('checkpoint');
  expect((failure as MistletoeError).hint).toBeTruthy();
  return failure as MistletoeError;
}

describe('openCheckpoint', () => {
  it('opens shards and the config beside them', async () => {
    writeShards();
    put('config.json', '{"hidden_size": 4}');
    const checkpoint = await openCheckpoint(folder);
    expect([...checkpoint.tensors.keys()].sort()).toEqual(['a', 'b', 'c']);
    expect(checkpoint.files).toEqual([
      join(folder, 'model-1.safetensors'),
      join(folder, 'model-2.safetensors'),
    ]);
    expect(checkpoint.config).toEqual({ hidden_size: 4 });
    expect(await findProblems(folder)).toEqual([]);
  });

  it('opens shards of torch files', async () => {
    writeTorchFile(join(folder, 'p-1.bin'), { a: one });
    put('pytorch_model.bin.index.json', '{"weight_map": {"a": "p-1.bin"}}');
    expect([...(await openCheckpoint(folder)).tensors.keys()]).toEqual(['a']);
  });

  it.each([
    'model.safetensors',
    'medusa_lm_head.safetensors',
    'hydra_lm_head.safetensors',
    'anything.safetensors',
  ])('opens %s', async (name) => {
    writeSafetensors(join(folder, name), { a: one });
    const checkpoint = await openCheckpoint(folder);
    expect(checkpoint.files).toEqual([join(folder, name)]);
    expect(checkpoint.config).toEqual({});
  });

  it.each(['pytorch_model.bin', 'medusa_lm_head.pt', 'hydra_lm_head.pt'])('opens %s', async (name) => {
    writeTorchFile(join(folder, name), { a: one });
    expect((await openCheckpoint(folder)).tensors.get('a')?.file).toBe(join(folder, name));
  });

  it('prefers the form that needs no pickle', async () => {
    writeTorchFile(join(folder, 'pytorch_model.bin'), { fromTorch: one });
    writeSafetensors(join(folder, 'model.safetensors'), { fromSafetensors: one });
    expect([...(await openCheckpoint(folder)).tensors.keys()]).toEqual(['fromSafetensors']);
  });

  it('refuses absent folders, files for folders, folders without weights or with too many', async () => {
    await expect(openCheckpoint(join(folder, 'absent'))).rejects.toThrow(/absent does not exist/);
    put('file', '');
    await expect(openCheckpoint(join(folder, 'file'))).rejects.toThrow(/is a file, expected a model folder/);
    expect((await refusal()).message).toMatch(/has no weights/);
    writeSafetensors(join(folder, 'x.safetensors'), { a: one });
    writeSafetensors(join(folder, 'y.safetensors'), { b: one });
    expect((await refusal()).message).toMatch(/2 safetensors files .* and no index/);
  });

  it.each(['model.gguf', 'Model-Q4_K_M.GGUF'])(
    'asks for %s itself where a folder has nothing else',
    async (name) => {
      put(name, 'GGUF');
      put('config.json', '{}');
      expect(await refusal()).toMatchObject({
        message: `${join(folder, name)} is a GGUF file; folders are read if they have safetensors or torch files`,
        hint: expect.stringMatching(/path of the GGUF file itself/) as string,
      });
      await expect(openCheckpoint(join(folder, name))).rejects.toThrow(
        /has 4 bytes and ends before its version/,
      );
      writeSafetensors(join(folder, 'model.safetensors'), { a: one });
      expect((await openCheckpoint(folder)).tensors.size).toBe(1);
    },
  );

  it.each([
    ['broken', '{"a": ', /not valid JSON/],
    ['a list', '[]', /not a JSON object/],
  ])('refuses a config that is %s', async (_, text, message) => {
    writeSafetensors(join(folder, 'model.safetensors'), { a: one });
    put('config.json', text);
    expect((await refusal()).message).toMatch(message);
  });

  it('refuses an index that names a file no folder can hold', async () => {
    writeIndex({ a: `${'x'.repeat(5000)}.safetensors` });
    const { message } = await refusal();
    expect(message).toMatch(/names a file of 5012 characters, "x{60}"\.\.\./);
    expect(message.length).toBeLessThan(500);
  });

  it.each([
    '../outside.safetensors',
    '/etc/outside.safetensors',
    'a/../../outside.safetensors',
    '..\\outside.safetensors',
    'C:outside.safetensors',
    'nul\0.safetensors',
    './model.safetensors',
  ])('refuses an index that leads outside: %j', async (name) => {
    writeIndex({ a: name });
    expect((await refusal()).message).toMatch(/does not stay inside the folder/);
  });

  it('refuses malformed indexes', async () => {
    writeIndex({ a: 7 });
    expect((await refusal()).message).toMatch(/gives "a" a number/);
    writeIndex([]);
    expect((await refusal()).message).toMatch(/no weight_map/);
    writeIndex({});
    expect((await refusal()).message).toMatch(/empty weight_map/);
    writeIndex({ a: 'notes.txt' });
    expect((await refusal()).message).toMatch(/expected .safetensors/);
  });

  it('reports tensors that index and shard do not agree on', async () => {
    writeShards();
    writeIndex({
      a: 'model-1.safetensors',
      b: 'model-1.safetensors',
      c: 'model-2.safetensors',
      d: 'model-2.safetensors',
    });
    expect((await refusal()).message).toMatch(/says that model-2.safetensors holds "d", but it does not/);
    writeIndex({ a: 'model-1.safetensors', c: 'model-2.safetensors' });
    expect((await refusal()).message).toMatch(/model-1.safetensors holds "b", which .* does not place there/);
  });

  it('refuses a folder where a file should be', async () => {
    mkdirSync(join(folder, 'model.safetensors'));
    expect((await refusal()).message).toMatch(/not a regular file/);
  });

  it('refuses an empty state dict', async () => {
    writeSafetensors(join(folder, 'model.safetensors'), {});
    expect((await refusal()).message).toMatch(/without any tensor/);
  });
});

describe('findProblems', () => {
  it('lists everything at once: config, missing shard, truncated shard', async () => {
    writeShards();
    put('config.json', 'oops');
    const size = readFileSync(join(folder, 'model-1.safetensors')).byteLength;
    truncateSync(join(folder, 'model-1.safetensors'), size - 1);
    writeIndex({ a: 'model-1.safetensors', b: 'model-1.safetensors', c: 'model-3.safetensors' });
    const problems = await findProblems(folder);
    expect(problems.map(({ problem }) => problem)).toEqual([
      expect.stringMatching(/config.json is not valid JSON/),
      expect.stringMatching(/model-1.safetensors.*truncated/),
      expect.stringMatching(/model-3.safetensors does not exist/),
    ]);
    for (const { remedy } of problems) expect(remedy).not.toBe('');
    expect((await refusal()).hint).toMatch(/2 more problems/);
  });
});
