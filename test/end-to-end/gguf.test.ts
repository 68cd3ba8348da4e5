/** The commands on GGUF files of a tiny target and a tiny draft model: the answers of the folders they were made of. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/program.js';
import { countGpuBytes } from '../../src/decode/gpu-fit.js';
import { identifyModel } from '../../src/runs/identity.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { createRunner } from '../support/run-command.js';
import { writeTinyPair } from './tiny-gguf.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
const place = (name: string): string => join(temporary.path, name);
const cacheFolder = place('cache');
const generate = createRunner('generate', cacheFolder);

beforeAll(() => writeTinyPair(temporary.path));

interface Answer {
  readonly tokenIds: readonly number[];
  readonly acceptedLengths?: readonly number[];
}

async function answer(target: string, ...more: string[]): Promise<Answer> {
  const { code, out } = await generate([
    ...['--target', place(target), '--raw', '--prompt', 'abcdefg', '-n', '16', '--threads', '1'],
    ...['--format', 'json', ...more],
  ]);
  expect(code).toBe(0);
  return JSON.parse(out) as Answer;
}

async function inspect(...argv: readonly string[]): Promise<{ readonly code: number; readonly out: string }> {
  const terminal = createFakeTerminal();
  return { code: await run(['inspect', ...argv], terminal), ...terminal.written };
}

describe('a GGUF file', () => {
  it('answers as its folder does, plainly and with a draft model', async () => {
    const plain = await answer('target');
    expect((await answer('target.gguf')).tokenIds).toEqual(plain.tokenIds);
    const fromFolders = await answer('target', '--drafter', place('draft'), '--draft', 'chain:3');
    const fromFiles = await answer('target.gguf', '--drafter', place('draft.gguf'), '--draft', 'chain:3');
    expect(fromFiles.tokenIds).toEqual(plain.tokenIds);
    expect(fromFiles.acceptedLengths).toEqual(fromFolders.acceptedLengths);
    const { out } = await createRunner('cache', cacheFolder)([]);
    expect(out).toContain(place('target.gguf'));
    expect(out).toContain(place('draft.gguf'));
  });

  it('answers otherwise if the order of its queries and keys is not restored', async () => {
    expect((await answer('forgotten.gguf')).tokenIds).not.toEqual((await answer('target')).tokenIds);
  });

  it('is inspected like a folder', async () => {
    const { code, out } = await inspect(place('target.gguf'));
    expect(code).toBe(0);
    expect(out).toMatch(/tokenizer +BPE of target\.gguf, 24 tokens/);
    expect(out).toMatch(/in 1 file/);
    const draft = await inspect(place('draft.gguf'), '--format', 'json');
    expect(JSON.parse(draft.out)).toMatchObject({ kind: 'decoder', problems: [] });
  });

  it('has an identity and a size on the GPU', async () => {
    const file = await identifyModel(place('target.gguf'), cacheFolder);
    const folder = await identifyModel(place('target'), cacheFolder);
    expect(file).toMatchObject({ name: 'target.gguf', parameterCount: folder.parameterCount });
    expect(file.sha256).not.toBe(folder.sha256);
    const count = (name: string): Promise<number> => countGpuBytes([place(name)], 'float32');
    expect(await count('target.gguf')).toBe(await count('target'));
  });

  it('that is missing or not one is refused in a sentence', async () => {
    const refused = async (target: string) => (await generate(['--target', target, '--prompt', 'a'])).err;
    expect(await refused(place('absent.gguf'))).toMatch(/absent\.gguf does not exist/);
    expect(await refused(place('target/config.json'))).toMatch(
      /is a file, expected a model folder[^]*\.gguf/,
    );
  });
});
