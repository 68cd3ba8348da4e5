/** Faults of disks, paths and other people's files: each is one sentence and an exit code, and none is called a bug. */
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FaultCommands, fullDiskMessage, oddConfigs } from './fault-commands.js';

const commands = new FaultCommands();
const { audits, common } = commands;

describe.skipIf(!existsSync('/dev/full'))('a disk that is full', () => {
  it('under stdout of generate is one sentence and exit code 1', async () => {
    const { code, said } = await commands.runOnFullDisk(commands.generate(), 'stdout');
    expect(said).toMatch(fullDiskMessage);
    expect(said).not.toMatch(/bug in Mistletoe|\n +at /);
    expect(code).toBe(1);
  });

  it('that nothing was written to is nobody’s fault', async () => {
    const { code, said } = await commands.runOnFullDisk(['generate', '--prompt'], 'stdout');
    expect(said).toMatch(/^error: Option [^\n]* argument missing\.\nhint: [^\n]*\n$/);
    expect(code).toBe(2);
  });
});

describe('stdin', () => {
  it('that is not UTF-8 is refused like such a file', async () => {
    const argv = ['generate', ...common, '--prompt', '-', '-n', '1', '--raw'];
    const { code, out, err } = await commands.runHere(argv, { stdin: Buffer.from([0x61, 0xff, 0x0a]) });
    expect(err).toBe(
      'error: The prompt on stdin is not UTF-8 text.\nhint:  Convert it to UTF-8, or fetch it again if it was cut short.\n',
    );
    expect([code, out]).toEqual([2, '']);
  });
});

describe('the place of a run', () => {
  const place = (): string => {
    const parent = audits.freshFolder();
    mkdirSync(parent);
    return parent;
  };
  const cases: readonly [string, () => string][] = [
    ['a file', () => { const path = join(place(), 'file'); writeFileSync(path, ''); return path; }], // prettier-ignore
    ['below a file', () => { const path = join(place(), 'file'); writeFileSync(path, ''); return join(path, 'run'); }], // prettier-ignore
    ['a link to nothing', () => { const path = join(place(), 'link'); symlinkSync('nowhere', path); return path; }], // prettier-ignore
    ['a link to itself', () => { const path = join(place(), 'link'); symlinkSync('link', path); return path; }], // prettier-ignore
    ['/proc', () => '/proc/mistletoe'],
    ['a name of 300 letters', () => join(place(), 'x'.repeat(300))],
  ];

  it.each(cases)('that is %s is refused with its path', async (_, make) => {
    const out = make();
    const { code, err } = await commands.runHere(commands.audit('--out', out));
    expect(err).toMatch(/^error: [^\n]*\nhint: {2}[^\n]*\n$/);
    expect(err).toContain(out);
    expect(code).toBe(2);
  });

  it.skipIf(process.getuid?.() === 0)('that cannot be written is refused with its path', async () => {
    const parent = audits.freshFolder();
    mkdirSync(parent, { mode: 0o500 });
    const { code, err } = await commands.runHere(commands.audit('--out', join(parent, 'run')));
    expect(err).toContain(`The folder ${join(parent, 'run')} cannot be created: EACCES`);
    expect(code).toBe(2);
  });
});

describe('bench --answers', () => {
  it.each([
    ['/proc/mistletoe', 'cannot be created'],
    ['/dev/null', 'cannot be created'],
  ])('%s is refused before anything is measured', async (path, message) => {
    const { code, out, err } = await commands.runHere(commands.bench('--spec-bench', path));
    expect(err).toContain(`The folder ${path} ${message}`);
    expect([code, out]).toEqual([2, '']);
  });
});

describe('config.json', () => {
  it.each(oddConfigs.filter((_, index) => index % 4 === 0))(
    'of a target with %s = %j is answered in words',
    (key, value) => commands.expectWords(key, value),
  );
});
