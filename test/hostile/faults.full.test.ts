/** Faults of disks, and signals, as processes of their own meet them: each is one sentence and an exit code. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FaultCommands, fullDiskMessage, oddConfigs } from './fault-commands.js';

const commands = new FaultCommands();

describe.skipIf(!existsSync('/dev/full'))('a disk that is full', () => {
  it.each<[string, () => string[]]>([
    ['generate --format json', () => commands.generate('--format', 'json')],
    ['inspect', () => ['inspect', commands.audits.targetFolder]],
    ['inspect --format json', () => ['inspect', commands.audits.targetFolder, '--format', 'json']],
    ['bench', () => commands.bench()],
    ['audit', () => commands.audit('--out', commands.audits.freshFolder(), '--format', 'json')],
    ['--help', () => ['--help']],
  ])('under stdout of %s is one sentence and exit code 1', async (_, argv) => {
    const { code, said } = await commands.runOnFullDisk(argv(), 'stdout');
    expect(said).toMatch(fullDiskMessage);
    expect(said).not.toMatch(/bug in Mistletoe|\n +at /);
    expect(code).toBe(1);
  });

  it('under stderr is exit code 1, and what goes to stdout is whole', async () => {
    const argv = commands.generate('--format', 'text');
    const { code, said } = await commands.runOnFullDisk(argv, 'stderr');
    expect(said).toBe((await commands.runHere(argv)).out);
    expect(code).toBe(1);
  });
});

describe('a signal', () => {
  it.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
    ['SIGINT', 130],
  ] as const)(
    '%s ends an audit with the command that resumes it, and exit code %d',
    async (signal, exitCode) => {
      const out = join(commands.audits.freshFolder(), 'my run');
      const words = commands.audit('--out', out, '--steps', '400', '--patience', '400', '--progress', 'json');
      const child = spawn(process.execPath, [commands.main, ...words], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      let err = '';
      let isSent = false;
      child.stderr.on('data', (chunk: Buffer) => {
        err += String(chunk);
        // Once: a second one would kill it.
        if (!isSent && err.includes('"step":2,')) isSent = child.kill(signal);
      });
      const [code] = (await once(child, 'close')) as [number | null];
      expect(code).toBe(exitCode);
      expect(err).toContain(`Interrupted. Resume with:\n  mistletoe audit --resume '${out}'\n`);
    },
  );
});

describe('config.json', () => {
  it.each(oddConfigs.filter((_, index) => index % 4 !== 0))(
    'of a target with %s = %j is answered in words',
    (key, value) => commands.expectWords(key, value),
  );
});

describe('bench --answers', () => {
  /** A finished measurement; the first of its files is gone. */
  async function measureAnswers() {
    const answers = commands.audits.freshFolder();
    const argv = commands.bench('--spec-bench', answers);
    expect((await commands.runHere(argv)).code).toBe(0);
    const [first] = execFileSync('find', [answers, '-name', '*.jsonl'], { encoding: 'utf8' }).split('\n');
    rmSync(first!);
    return { argv, first: first! };
  }

  it('does not wait for the reader of a pipe that lies in its way', async () => {
    const { argv, first } = await measureAnswers();
    execFileSync('mkfifo', [first]);
    expect((await commands.runHere(argv)).code).toBe(0);
    expect(statSync(first).isFile()).toBe(true);
  });

  it('that cannot be written behind the measurement is a sentence', async () => {
    const { argv, first } = await measureAnswers();
    mkdirSync(join(first, 'in the way'), { recursive: true });
    const { code, err } = await commands.runHere(argv);
    expect(err).toMatch(new RegExp(`^error: Could not write ${first}: [^\n]*\nhint: [^\n]*\n$`));
    expect(code).toBe(1);
  });
});
