/**
 * Links, pipes and devices that a stranger planted in run folders, caches and downloads, in the place of every entry that
 * is written there: what they lead to stays as it was, and no command hangs.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, linkSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hostTag } from '../../src/core/processes.js';
import { createHubWorld, singleFile, weights } from '../support/checkpoint/hub-world.js';
import { hashOf } from '../support/hub-server.js';
import { casesOfTier, isFullTier } from '../support/tier.js';
import { FaultCommands } from './fault-commands.js';

const commands = new FaultCommands();
const { audits } = commands;
const isUnix = process.platform !== 'win32';

const treasure = 'years of work';
/** A folder outside of everything, with a file. */
let outside: string;
let victim: string;
beforeEach(() => {
  outside = audits.freshFolder();
  mkdirSync(outside);
  victim = join(outside, 'victim');
  writeFileSync(victim, treasure);
});

function expectUntouched(): void {
  expect(readdirSync(outside)).toEqual(['victim']);
  expect(readFileSync(victim, 'utf8')).toBe(treasure);
}

function plant(path: string, make: (path: string) => void): void {
  rmSync(path, { force: true, recursive: true });
  make(path);
}

type Plant = readonly [kind: string, plant: (path: string) => void];
const plants: readonly Plant[] = [
  ['a link to a file', (path) => { symlinkSync(victim, path); }], // prettier-ignore
  ['a link to a folder', (path) => { symlinkSync(outside, path); }], // prettier-ignore
  ['a link to nothing', (path) => { symlinkSync(join(outside, 'new'), path); }], // prettier-ignore
  ['a link to a device', (path) => { symlinkSync('/dev/zero', path); }], // prettier-ignore
  ['a pipe', (path) => { execFileSync('mkfifo', [path]); }], // prettier-ignore
];

const isQuickPlant = ([kind]: Plant): boolean => ['a link to a file', 'a pipe'].includes(kind);

const runFiles = ['config.json', 'run.lock', 'steps.jsonl', 'units.jsonl', 'timings.jsonl', 'result.json', 'report.html', 'report.md', 'junit.xml', 'suffixes.jsonl']; // prettier-ignore
const temporaries = [`result.json.${process.pid}.tmp`, 'config.json.part', `run.lock.${process.pid}-0123456789abcdef.part`]; // prettier-ignore
const trainingFiles = ['answers.jsonl', 'log.jsonl', 'states.bin', 'states.bin.jsonl', 'state.safetensors', 'start', 'best', 'last', 'result.json.part', 'hardened']; // prettier-ignore

describe.skipIf(!isUnix)('in a run folder', () => {
  let finished: string;
  beforeAll(async () => {
    finished = audits.freshFolder();
    const { code, err } = await commands.runHere(commands.audit('--out', finished));
    expect([code, err]).toEqual([expect.any(Number), expect.not.stringContaining('error')]);
    // The list below is complete.
    expect(runFiles).toEqual(expect.arrayContaining(readdirSync(finished)));
  });
  const copyRun = (): string => {
    const copy = audits.freshFolder();
    cpSync(finished, copy, { recursive: true });
    return copy;
  };
  const resume = (folder: string) =>
    commands.runHere(['audit', '--resume', folder, '--cache-dir', audits.cacheFolder, '--progress', 'none']);

  describe.each(casesOfTier(plants, isQuickPlant))('%s', (_, make) => {
    it.each([...runFiles, ...temporaries])('as %s is refused by --verify and --resume', async (name) => {
      const folder = copyRun();
      plant(join(folder, name), make);
      for (const { code, err } of [
        await commands.runHere(['audit', '--verify', folder]),
        await resume(folder),
      ]) {
        expect(err).toMatch(/^error: [^\n]*; a run has only regular files and folders\.\nhint: {2}[^\n]*\n$/);
        expect(err).toContain(join(folder, name));
        expect(code).toBe(2);
      }
      expectUntouched();
    });

    it.each(trainingFiles)('as %s is refused by train and harden', async (name) => {
      const folder = copyRun();
      plant(join(folder, name), make);
      for (const command of ['train', 'harden']) {
        const { code, err } = await commands.runHere([command, '--resume', folder]);
        expect(err).toContain(`${join(folder, name)} is `);
        expect(code).toBe(2);
      }
      expectUntouched();
    });

    it('as the lock of a folder without a run is refused', async () => {
      const folder = audits.freshFolder();
      mkdirSync(folder);
      plant(join(folder, 'run.lock'), make);
      const { code, err } = await commands.runHere(commands.audit('--out', folder));
      expect(err).toMatch(
        /^error: [^\n]*run\.lock says that the run is open, but not in which process\.\nhint: /,
      );
      expect(code).toBe(2);
      expectUntouched();
    });
  });

  it.each(casesOfTier(runFiles, (name) => ['steps.jsonl', 'result.json'].includes(name)))(
    'a hard link as %s is never written through',
    async (name) => {
      const folder = copyRun();
      const path = join(folder, name);
      const isAppended = ['steps.jsonl', 'units.jsonl', 'timings.jsonl'].includes(name);
      const contents = existsSync(path) ? readFileSync(path) : Buffer.from('{');
      // What belongs there, so that the run would go on.
      writeFileSync(victim, contents);
      plant(path, (at) => {
        linkSync(victim, at);
      });
      const { code, err } = await resume(folder);
      if (isAppended) {
        expect(err).toContain(`${path} is a hard link; only regular files with one name are written to.`);
        expect(code).toBe(2);
      }
      expect(readFileSync(victim)).toEqual(contents);
    },
  );

  it.skipIf(isFullTier)(
    'a folder that was left unfinished is filled past links in the places of temporary files',
    async () => {
      const folder = audits.freshFolder();
      mkdirSync(folder);
      const name = `config.json.${process.pid}.${hostTag()}.${'0'.repeat(16)}.tmp`;
      symlinkSync(victim, join(folder, name));
      const { code } = await commands.runHere(commands.audit('--out', folder));
      expect([0, 3]).toContain(code);
      expect(readdirSync(folder)).not.toContain(name);
      expectUntouched();
    },
  );
});

describe.skipIf(!isUnix)('in the weight cache', () => {
  let filled: string;
  const generate = (cacheFolder: string) =>
    commands.runHere(['generate', '--target', audits.targetFolder, '--cache-dir', cacheFolder, '--prompt', 'abc', '-n', '4', '--raw']); // prettier-ignore
  let expected: Awaited<ReturnType<typeof generate>>;
  beforeAll(async () => {
    filled = audits.freshFolder();
    expected = await generate(filled);
    expect(expected.code).toBe(0);
  });

  const hard: Plant = ['a hard link', (path) => { linkSync(victim, path); }]; // prettier-ignore
  describe.each(casesOfTier([...plants, hard], isQuickPlant))('%s', (kind, make) => {
    const entries: readonly [string, (folder: string) => string][] = [
      ['weights', (folder) => readdirSync(folder).find((name) => name.endsWith('.weights'))!],
      ['their note', (folder) => readdirSync(folder).find((name) => name.endsWith('.weights.json'))!],
      ['a hash', (folder) => readdirSync(folder).find((name) => name.endsWith('.hash.json'))!],
      ['a mark', (folder) => join('in-use', readdirSync(folder).find((name) => name.endsWith('.weights'))!.replace('weights', `${process.pid}.${hostTag()}`))], // prettier-ignore
      ['the folder of marks', () => 'in-use'],
      ['the folder of kernels', () => 'kernels'],
    ];
    it.each(entries)('as %s costs nothing but time', async (_, find) => {
      const folder = audits.freshFolder();
      cpSync(filled, folder, { recursive: true });
      const name = find(folder);
      plant(join(folder, name), make);
      const { code, out } = await generate(folder);
      expect([code, out]).toEqual([0, expected.out]);
      expectUntouched();
      if (kind === 'a hard link') expect(lstatSync(victim).nlink).toBeLessThanOrEqual(2);
    });
  });
});

describe.skipIf(!isUnix || isFullTier)('in the cache of the hub', () => {
  const world = createHubWorld();

  it.each(['', 'blobs', 'snapshots', 'snapshots/COMMIT', 'refs'])(
    'a link in the place of the folder %j is refused',
    async (below) => {
      const commit = world.hub.add('org/tiny', singleFile);
      const path = join(world.repositoryFolder(), below.replace('COMMIT', commit));
      mkdirSync(join(path, '..'), { recursive: true });
      symlinkSync(outside, path);
      await expect(world.download('org/tiny')).rejects.toMatchObject({
        code: 'usage',
        message: `${path} is a symbolic link; files are only written to folders of ${join(world.home, 'hub')} itself.`,
      });
      expectUntouched();
    },
  );

  it('links in the places of files are replaced, and nothing is appended through one', async () => {
    const commit = world.hub.add('org/tiny', singleFile);
    const repository = world.repositoryFolder();
    const hash = hashOf('model.safetensors', weights);
    for (const below of ['blobs', 'refs', `snapshots/${commit}`])
      mkdirSync(join(repository, below), { recursive: true });
    const partial = (pid: number, random: string): string =>
      join(repository, 'blobs', `${hash}.${pid}.${hostTag()}.${random.repeat(16)}.incomplete`);
    const places = [join(repository, 'refs/main'), join(repository, 'snapshots', commit, 'config.json'), join(repository, 'blobs', hash)]; // prettier-ignore
    for (const path of places) symlinkSync(victim, path);
    symlinkSync(victim, partial(999_999_999, 'a'));
    linkSync(victim, partial(999_999_999, 'b'));
    execFileSync('mkfifo', [partial(999_999_999, 'c')]);
    const folder = await world.download('org/tiny');
    expect(readFileSync(join(folder, 'model.safetensors'))).toEqual(weights);
    expect(readFileSync(places[0]!, 'utf8')).toBe(commit);
    expectUntouched();
  });
});
