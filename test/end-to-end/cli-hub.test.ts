/** Models by their names on the Hugging Face hub, from a hub on loopback to an answer. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { run } from '../../src/cli/program.js';
import type { Inspection } from '../../src/draft/inspection.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { bundledCache } from '../support/model-folders.js';
import type { FakeHub } from '../support/hub-server.js';
import { hashOf, readContents, startHub } from '../support/hub-server.js';
import type { Outcome } from '../support/run-command.js';
import { tiny, writeDecoder, writeLetterTokenizer } from '../support/tiny-checkpoints.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
const { main } = transpileForTests('hub');

let hub: FakeHub;
let commit: string;
let homes = 0;
let environment: Record<string, string>;
const contents = readContents(writeTiny());
const weights = Buffer.from(contents['model.safetensors']!);

function writeTiny(): string {
  const folder = writeDecoder(join(temporary.path, 'tiny'), tiny);
  writeLetterTokenizer(folder, tiny);
  return folder;
}

beforeAll(async () => {
  hub = await startHub();
  commit = hub.add('org/tiny', contents);
});
afterAll(() => hub.close());
beforeEach(() => {
  hub.requests.length = 0;
  hub.disturb(undefined);
  environment = { HF_HOME: join(temporary.path, `home-${homes++}`), HF_ENDPOINT: hub.endpoint };
});

const weightCache = join(temporary.path, 'weights');
const repositoryFolder = (): string => join(environment.HF_HOME!, 'hub/models--org--tiny');

async function mistletoe(argv: readonly string[], options: FakeTerminalOptions = {}): Promise<Outcome> {
  const terminal = createFakeTerminal({ environment, ...options });
  const code = await run(argv, terminal);
  return { code, ...terminal.written };
}

const generating = ['generate', '--cache-dir', weightCache, '--raw', '--prompt', 'abc', '-n', '4'];
const benching = ['bench', '--cache-dir', weightCache, '--warmup', '0', '-n', '4', '--format', 'json'];

describe('a model by its name', () => {
  it('is fetched by inspect, and answers without network from then on', async () => {
    const first = await mistletoe(['inspect', 'org/tiny', '--download', '--format', 'json']);
    expect(first.code).toBe(0);
    const { folder, kind } = JSON.parse(first.out) as Inspection;
    expect([folder, kind]).toEqual([join(repositoryFolder(), 'snapshots', commit), 'decoder']);
    expect(first.err).toMatch(/^download org\/tiny: [\d.]+ KB to do\n/);
    expect(first.err).toMatch(/ KB \(100 %\).*\norg\/tiny is in .*\/snapshots\/[0-9a-f]{40}\n$/);

    const asked = hub.requests.length;
    expect(asked).toBeGreaterThan(0);
    const byName = await mistletoe([...generating, '--target', 'org/tiny']);
    const byFolder = await mistletoe([...generating, '--target', folder]);
    expect(byName.code).toBe(0);
    expect(byName.out).toBe(byFolder.out);
    expect(byName.out).not.toBe('');
    expect(hub.requests).toHaveLength(asked);
  });

  it('is fetched once for target and drafter, and is called by its name', async () => {
    const named = ['-t', 'org/tiny', '-d', `org/tiny@${commit}`, '--download'];
    writeFileSync(join(temporary.path, 'prompts.txt'), 'abc\n');
    const prompts = ['-p', join(temporary.path, 'prompts.txt')];
    const { code, out, err } = await mistletoe([...benching, ...named, ...prompts, '--progress', 'json', '--chat-template', templateFile()]); // prettier-ignore
    expect(err.split('\n').filter((line) => line.includes('"progress-start"'))).toHaveLength(2); // download and bench
    expect(code).toBe(0);
    const { setting, summaries } = JSON.parse(out) as Benchmark;
    expect(setting.target).toBe('tiny');
    expect(summaries.map(({ system }) => system)).toContain(`tiny@${commit}`);
    const fetched = hub.requests.filter(
      ({ host, path }) => host === 'storage' && path.includes('model.safetensors'),
    );
    expect(fetched).toHaveLength(1);
  });

  it('stands in an audit by its name, too', async () => {
    const dryRun = [
      ...['audit', '--cache-dir', weightCache, '-t', 'org/tiny', '-d', 'org/tiny', '--download', '--dry-run'],
      ...['--prompt', 'abc', '--preset', 'quick', '--raw', '--suffix-length', '2', '--max-new-tokens', '24'],
    ];
    const before = await mistletoe(dryRun);
    expect([before.code, before.out]).toEqual([0, expect.stringContaining('org/tiny')]);
    expect(before.out).not.toContain('It would audit tiny (chain:4)');
    expect(before.out).toMatch(/^Time: some .* for 1 prompt on the CPU in float32, from the sizes/m);
    await mistletoe(['inspect', 'org/tiny', '--download']);
    const { code, out } = await mistletoe(dryRun);
    expect(out).toMatch(/^It would audit tiny \(chain:4\) on tiny, 1 prompt, preset quick:/);
    expect(code).toBe(0);
  });

  it('gives way to a folder that is here', async () => {
    // From the root of the repository, where the tests run.
    const { code, err } = await mistletoe(['inspect', 'models/reference', '--download']);
    expect([code, err, hub.requests]).toEqual([2, '', []]);
  });

  it('comes from the cache while the hub is switched off, whatever is asked for', async () => {
    await mistletoe(['inspect', 'org/tiny', '--download']);
    hub.requests.length = 0;
    environment.HF_HUB_OFFLINE = '1';
    expect((await mistletoe(['inspect', 'org/tiny', '--download'])).code).toBe(0);
    const { code, err } = await mistletoe(['inspect', 'org/other', '--download']);
    expect([code, hub.requests]).toEqual([2, []]);
    expect(err).toContain('HF_HUB_OFFLINE is set');
  });
});

interface Benchmark {
  readonly setting: { readonly target: string };
  readonly summaries: readonly { readonly system: string }[];
}

function templateFile(): string {
  const path = join(temporary.path, 'template.jinja');
  writeFileSync(path, '{{ messages[0].content }}');
  return path;
}

describe('without --download', () => {
  it.each([
    [['inspect', 'org/tiny']],
    [[...generating, '--target', 'org/tiny']],
    [[...generating, '--drafter', 'org/tiny']],
    [['bench', '--target', 'org/tiny', '--drafter', 'ngram']],
    [['bench', '--drafter', 'org/tiny']],
    [['audit', '--target', 'org/tiny', '--drafter', 'sps', '--prompt', 'a']],
    [['audit', '--drafter', 'org/tiny', '--prompt', 'a', '--dry-run']],
  ])('%j asks nothing of the network', async (argv) => {
    const { code, out, err } = await mistletoe(argv);
    expect([code, out, hub.requests]).toEqual([2, '', []]);
    expect(err).toBe(
      `error: There is no folder org/tiny, and no model of that name in the Hugging Face cache in ${environment.HF_HOME!}/hub.\n` +
        `hint:  --download fetches it from ${new URL(hub.endpoint).host}; how large it is, the hub says then. A folder is given by its path.\n`,
    );
    expect(existsSync(environment.HF_HOME!)).toBe(false);
  });
});

describe('with --download', () => {
  it.each([
    'org/na me',
    '../no-such-folder',
    'org/../tiny',
    'tiny',
    './org/tiny',
    '/no/such/folder',
    'org/a--b',
  ])('%j is refused: neither a folder nor a name', async (given) => {
    const { code, err } = await mistletoe(['inspect', given, '--download']);
    expect([code, hub.requests]).toEqual([2, []]);
    expect(err).toContain(`${given} is neither a folder nor a name on the Hugging Face hub; ORG/NAME or`);
  });

  it('bundled drafters and those without weights are nothing to fetch', async () => {
    const bundled = [...generating, '--cache-dir', bundledCache];
    for (const drafter of ['ngram', 'sps'])
      expect((await mistletoe([...bundled, '--drafter', drafter, '--download'])).code).toBe(0);
    expect(hub.requests).toEqual([]);
  });

  it('what is wrong with the options is said before anything is fetched', async () => {
    const { code, err } = await mistletoe(['audit', '--target', 'org/tiny', '--prompt', 'a', '--download']);
    expect([code, hub.requests]).toEqual([2, []]);
    expect(err).toContain('The audit has no drafter for the target org/tiny.');
  });

  it.each([
    [2, 'org/gone', /^error: There is no model org\/gone on /],
    [2, 'org/tiny@v9', /^error: org\/tiny has no revision v9 on /],
    [2, 'org/gated', /^error: org\/gated is gated on .* \(403\)\.\nhint: {2}Accept its licence on /m],
    [1, 'org/broken', /^error: model\.safetensors from .* has the hash .*; nothing of it is kept\.$/m],
  ])(
    'a failure is a sentence with exit code %i, and never shows the token: %s',
    async (code, name, message) => {
      hub.add('org/gated', contents, { isGated: true });
      hub.add('org/broken', contents);
      Object.assign(environment, { HF_TOKEN: 'hf_of_somebody_else', MISTLETOE_DEBUG: '1' });
      hub.disturb(({ path, host }, response) => {
        if (host !== 'storage' || !path.includes('org/broken')) return false;
        response.end(Buffer.alloc(weights.byteLength));
        return true;
      });
      const outcome = await mistletoe(['inspect', name, '--download']);
      expect(outcome.err).toMatch(message);
      expect(outcome.err).not.toMatch(/hf_of|signature|secret/);
      expect(outcome.code).toBe(code);
      expect(hub.requests[0]!.authorization).toBe('Bearer hf_of_somebody_else');
    },
  );
});

describe('downloads of several processes', () => {
  const start = (): ChildProcess =>
    spawn(process.execPath, [main, 'inspect', 'org/tiny', '--download'], {
      env: { ...process.env, ...environment, HF_HUB_CACHE: '', HF_TOKEN: '' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const blobs = (): string[] => readdirSync(join(repositoryFolder(), 'blobs'));

  it('a killed one leaves nothing that counts, and the next goes on from there', async () => {
    const half = weights.byteLength >> 1;
    const child = start();
    hub.disturb(({ host }, response) => {
      if (host !== 'storage') return false;
      response.writeHead(200, { 'content-length': weights.byteLength }).write(weights.subarray(0, half)); // and no more
      return true;
    });
    const remains = (): string | undefined => blobs().find((name) => name.endsWith('.incomplete'));
    const waitsForMore = (): boolean => {
      const name = existsSync(join(repositoryFolder(), 'blobs')) ? remains() : undefined;
      return (
        name?.startsWith(hashOf('model.safetensors', weights)) === true &&
        statSync(join(repositoryFolder(), 'blobs', name)).size === half
      );
    };
    while (!waitsForMore()) await new Promise((resolve) => setTimeout(resolve, 20));
    child.kill('SIGKILL');
    await once(child, 'close');
    expect((await mistletoe(['inspect', 'org/tiny'])).code).toBe(2);
    expect(existsSync(join(repositoryFolder(), 'snapshots'))).toBe(false);

    hub.disturb(undefined);
    hub.requests.length = 0;
    expect((await mistletoe(['inspect', 'org/tiny', '--download'])).code).toBe(0);
    const ranges = hub.requests.filter(({ host }) => host === 'storage').map(({ range }) => range);
    expect(ranges).toEqual([`bytes=${half}-`]);
    expect(remains()).toBeUndefined();
  });

  it('two at once end with one whole model', async () => {
    const children = [start(), start()];
    const codes = await Promise.all(
      children.map(async (child) => ((await once(child, 'close')) as [number])[0]),
    );
    expect(codes).toEqual([0, 0]);
    expect(blobs()).toHaveLength(Object.keys(contents).length);
    expect((await mistletoe([...generating, '--target', 'org/tiny'])).code).toBe(0);
  });
});
