import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { run } from '../../src/cli/program.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { createRunner } from '../support/run-command.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
const audits = new TinyAudits(shallow);
afterAll(async () => {
  await audits.dispose();
  temporary.remove();
});
let drafter: string;
beforeAll(() => {
  drafter = audits.writeDrafter('Medusa, torch file');
});

let folders = 0;
const newFolder = (): string => join(temporary.path, `cache-${(folders += 1)}`);

async function command(argv: readonly string[]) {
  const terminal = createFakeTerminal();
  return { code: await run(argv, terminal), ...terminal.written };
}

const generate = (cacheFolder: string, more: readonly string[] = []) =>
  command([
    ...['generate', '--target', audits.targetFolder, '--drafter', drafter, '--raw', '--prompt', 'abc'],
    ...['-n', '4', '--draft', 'chain:2', '--threads', '1', '--cache-dir', cacheFolder, ...more],
  ]);

describe('mistletoe cache', () => {
  it('lists what generate has left, for people and for programs', async () => {
    const folder = newFolder();
    await generate(folder);
    writeFileSync(join(folder, 'thesis.txt'), '');
    const cache = createRunner('cache', folder);
    const { code, out } = await cache([]);
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`^folder +${folder}\nlimit +64\\.0 GB .*\nused +[\\d.]+ KB in 2 files`));
    expect(out).toMatch(new RegExp(`^[0-9a-f]{12}… +[\\d.]+ KB +plain +now +${audits.targetFolder}$`, 'm'));
    expect(out).toContain(drafter);
    expect(out).toContain('Other files that Mistletoe does not touch: 1.');

    const listed = JSON.parse((await cache(['list', '--format', 'json'])).out) as {
      totalBytes: number;
      weights: { sizeBytes: number; lastUsed: string; checkpoint: string }[];
    };
    expect(listed).toMatchObject({ folder, limitBytes: 64e9, temporaryCount: 0, foreignCount: 1 });
    expect(listed.weights.map(({ checkpoint }) => checkpoint).sort()).toEqual(
      [audits.targetFolder, drafter].sort(),
    );
    expect(listed.totalBytes).toBe(listed.weights.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
  });

  it('says which of a large model’s files is the packed one, and which can no longer be told', async () => {
    const folder = newFolder();
    const runtime = createOnnxRuntime({ threads: 1, packedWeightLimitBytes: 0 }); // all models are large
    const model = await loadModel(audits.targetFolder, { runtime, cacheFolder: folder });
    await model.prepare();
    await runtime.dispose();
    writeFileSync(join(folder, `${'a'.repeat(64)}.weights`), 'x');
    const cache = createRunner('cache', folder);
    const { out } = await cache([]);
    for (const content of ['plain', 'packed'])
      expect(out).toMatch(new RegExp(`^[0-9a-f]{12}… .* ${content} +now +${audits.targetFolder}$`, 'm'));
    expect(out).toMatch(/^a{12}… +1 bytes? +unknown +\d.*Z +unknown$/m);
    const { weights } = JSON.parse((await cache(['--format', 'json'])).out) as {
      weights: { content: string | null }[];
    };
    expect(weights.map(({ content }) => content).sort()).toEqual(['packed', 'plain', null].sort());
  });

  it('finds damage with --verify-cache, and makes the damaged file anew', async () => {
    const folder = newFolder();
    await generate(folder);
    const name = readdirSync(folder).find((each) => each.endsWith('.weights'))!;
    chmodSync(join(folder, name), 0o600);
    const bytes = readFileSync(join(folder, name));
    bytes[5]! ^= 1;
    writeFileSync(join(folder, name), bytes);
    expect((await generate(folder, ['--verify-cache'])).err).toMatch(/note: .*damaged and is made anew/);
  });

  it('trims and clears, but not what a running command uses', async () => {
    const folder = newFolder();
    await generate(folder); // this very process still uses both
    const cache = createRunner('cache', folder);
    const trimmed = await cache(['trim', '--to', '0GB']);
    expect(trimmed.code).toBe(0);
    expect(trimmed.out).toMatch(/^No weights removed\.\n(.* is used by a running command and stays\.\n){2}/);
    writeFileSync(join(folder, `${'a'.repeat(64)}.weights`), 'x');
    const cleared = JSON.parse((await cache(['clear', '--format', 'json'])).out) as Record<string, unknown[]>;
    expect([cleared.removed, cleared.inUse, cleared.failures].map((list) => list?.length)).toEqual([1, 2, 0]);
    expect(readdirSync(folder).filter((name) => name.endsWith('.hash.json'))).toEqual([]);
  });

  it.each([
    [['--to', '3GB'], /--to was given to cache list/],
    [['trim', '--to', '3'], /argument '3' is invalid; expected a size with its unit/],
    [['frobnicate'], /cache cannot frobnicate/],
    [['trim', 'clear'], /too many arguments/i],
  ])('refuses %j', async (argv, message) => {
    const { code, out, err } = await createRunner('cache', newFolder())(argv);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(message);
    expect(err).toMatch(/^hint:/m);
  });

  it('helps, and takes a folder that is not there for an empty one', async () => {
    expect((await command(['cache', '--help'])).out).toMatch(/mistletoe cache trim[^]*MISTLETOE_CACHE_LIMIT/);
    const folder = newFolder();
    expect((await createRunner('cache', folder)([])).out).toContain('0 bytes in 0 files');
    expect(existsSync(folder)).toBe(false);
  });
});
