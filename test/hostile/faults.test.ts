/** Faults of disks, paths and other people's files: each is one sentence and an exit code, and none is called a bug. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/program.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint, writeLetterTokenizer } from '../support/tiny-checkpoints.js'; // prettier-ignore
import { transpileForTests } from '../support/transpiled-sources.js';

const audits = new TinyAudits();
const { main } = transpileForTests('faults');
afterAll(async () => {
  await audits.dispose();
});
let drafter: string;
let common: readonly string[];
beforeAll(() => {
  drafter = audits.writeDrafter('EAGLE-3 with d2t');
  common = ['--target', audits.targetFolder, '--cache-dir', audits.cacheFolder];
});

async function runHere(argv: readonly string[], options?: FakeTerminalOptions) {
  const terminal = createFakeTerminal(options);
  return { code: await run(argv, terminal), ...terminal.written };
}

const auditWords = (): string[] => [
  ...['audit', ...common, '--drafter', drafter, '--prompt', 'abcdefgh', '--draft', 'chain:3', '--raw'],
  ...['--threads', '1', '--preset', 'quick', '--keep', 'distribution', '--suffix-length', '5'],
  ...['--window', '8', '--max-new-tokens', '20', '--epsilon', '3', '--shortest-answer', '8'],
  ...['--steps', '1', '--candidates', '8', '--starts', '1', '--progress', 'none'],
];
const benchWords = (): string[] => [
  ...['bench', ...common, '-d', drafter, '--limit', '1', '-n', '4', '--warmup', '0', '--progress', 'none'],
];

describe.skipIf(!existsSync('/dev/full'))('a disk that is full', () => {
  /** A process whose stdout or stderr is the full disk; what it says on the other one. */
  async function runFull(argv: readonly string[], full: 'stdout' | 'stderr') {
    const disk = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [main, ...argv], {
      stdio: ['ignore', full === 'stdout' ? disk : 'pipe', full === 'stderr' ? disk : 'pipe'],
    });
    closeSync(disk);
    let said = '';
    (full === 'stdout' ? child.stderr : child.stdout)?.on('data', (chunk: Buffer) => (said += String(chunk)));
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, said };
  }

  const sentence = /(^|\n)error: stdout cannot be written: ENOSPC: [^\n]*\nhint: {2}[^\n]*\n$/;

  it.each<[string, () => string[]]>([
    ['generate', () => ['generate', ...common, '--prompt', 'abc', '-n', '4', '--raw']],
    ['generate', () => ['generate', ...common, '--prompt', 'abc', '-n', '4', '--raw', '--format', 'json']],
    ['inspect', () => ['inspect', audits.targetFolder]],
    ['inspect', () => ['inspect', audits.targetFolder, '--format', 'json']],
    ['bench', () => benchWords()],
    ['audit', () => [...auditWords(), '--out', audits.freshFolder(), '--format', 'json']],
    ['--help', () => ['--help']],
  ])(
    'under stdout of %s is one sentence and exit code 1',
    async (_, argv) => {
      const { code, said } = await runFull(argv(), 'stdout');
      expect(said).toMatch(sentence);
      expect(said).not.toMatch(/bug in Mistletoe|\n +at /);
      expect(code).toBe(1);
    },
    60_000,
  );

  it('under stderr is exit code 1, and what goes to stdout is whole', async () => {
    const argv = ['generate', ...common, '--prompt', 'abc', '-n', '4', '--raw', '--format', 'text'];
    const { code, said } = await runFull(argv, 'stderr');
    expect(said).toBe((await runHere(argv)).out);
    expect(code).toBe(1);
  });

  it('that nothing was written to is nobody’s fault', async () => {
    const { code, said } = await runFull(['generate', '--prompt'], 'stdout');
    expect(said).toMatch(/^error: Option [^\n]* argument missing\.\nhint: [^\n]*\n$/);
    expect(code).toBe(2);
  });
});

describe('a signal', () => {
  it.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
    ['SIGINT', 130],
  ] as const)(
    '%s ends an audit with the command that goes on, and exit code %d',
    async (signal, exitCode) => {
      const out = join(audits.freshFolder(), 'my run');
      const child = spawn(
        process.execPath,
        [main, ...auditWords(), '--out', out, '--steps', '400', '--patience', '400', '--progress', 'json'],
        { stdio: ['ignore', 'ignore', 'pipe'] },
      );
      let err = '';
      let isSent = false;
      child.stderr.on('data', (chunk: Buffer) => {
        err += String(chunk);
        // Once: a second one would kill it.
        if (!isSent && err.includes('"step":2,')) isSent = child.kill(signal);
      });
      const [code] = (await once(child, 'close')) as [number | null];
      expect(code).toBe(exitCode);
      expect(err).toContain(`Interrupted. Go on with:\n  mistletoe audit --resume '${out}'\n`);
    },
    60_000,
  );
});

describe('stdin', () => {
  it('that is not UTF-8 is refused like such a file', async () => {
    const argv = ['generate', ...common, '--prompt', '-', '-n', '1', '--raw'];
    const { code, out, err } = await runHere(argv, { stdin: Buffer.from([0x61, 0xff, 0x0a]) });
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
    const { code, err } = await runHere([...auditWords(), '--out', out]);
    expect(err).toMatch(/^error: [^\n]*\nhint: {2}[^\n]*\n$/);
    expect(err).toContain(out);
    expect(code).toBe(2);
  });

  it.skipIf(process.getuid?.() === 0)('that cannot be written is refused with its path', async () => {
    const parent = audits.freshFolder();
    mkdirSync(parent, { mode: 0o500 });
    const { code, err } = await runHere([...auditWords(), '--out', join(parent, 'run')]);
    expect(err).toContain(`The folder ${join(parent, 'run')} cannot be created: EACCES`);
    expect(code).toBe(2);
  });
});

describe('bench --answers', () => {
  it.each([
    ['/proc/mistletoe', 'cannot be created'],
    ['/dev/null', 'cannot be created'],
  ])('%s is refused before anything is measured', async (path, message) => {
    const { code, out, err } = await runHere([...benchWords(), '--answers', path]);
    expect(err).toContain(`The folder ${path} ${message}`);
    expect([code, out]).toEqual([2, '']);
  });

  it('does not wait for the reader of a pipe that lies in its way', async () => {
    const answers = audits.freshFolder();
    expect((await runHere([...benchWords(), '--answers', answers])).code).toBe(0);
    const [first] = execFileSync('find', [answers, '-name', '*.jsonl'], { encoding: 'utf8' }).split('\n');
    rmSync(first!);
    execFileSync('mkfifo', [first!]);
    expect((await runHere([...benchWords(), '--answers', answers])).code).toBe(0);
    expect(statSync(first!).isFile()).toBe(true);
  });

  it('that cannot be written behind the measurement is a sentence', async () => {
    const answers = audits.freshFolder();
    expect((await runHere([...benchWords(), '--answers', answers])).code).toBe(0);
    const [first] = execFileSync('find', [answers, '-name', '*.jsonl'], { encoding: 'utf8' }).split('\n');
    rmSync(first!);
    mkdirSync(join(first!, 'in the way'), { recursive: true });
    const { code, err } = await runHere([...benchWords(), '--answers', answers]);
    expect(err).toMatch(new RegExp(`^error: Could not write ${first!}: [^\n]*\nhint: [^\n]*\n$`));
    expect(code).toBe(1);
  });
});

describe('config.json', () => {
  const architectures = [5, true, '', {}, [5], [null], [{}], [['LlamaForCausalLM']], [[[[]]]], ['__proto__']];
  const sizes = ['hidden_size', 'num_attention_heads', 'num_key_value_heads', 'num_hidden_layers', 'intermediate_size', 'head_dim']; // prettier-ignore
  const odd: readonly (readonly [string, unknown])[] = [
    ...architectures.map((value) => ['architectures', value] as const),
    ...[2 ** 53 - 1, 2 ** 53, 1e308, 0, -1, 1.5, '32', [1], {}].map(
      (value) => ['vocab_size', value] as const,
    ),
    ...sizes.flatMap((key) => [2 ** 53 - 1, -1, 1.5].map((value) => [key, value] as const)),
  ];
  const ours = /bug in Mistletoe|fault of the program|\n +at /;

  it.each(odd)('of a target with %s = %j is answered in words', async (key, value) => {
    const folder = audits.freshFolder();
    writeCheckpoint(folder, 'model.safetensors', decoderTensors(tiny), {
      ...llamaConfig(tiny),
      [key]: value,
    });
    writeLetterTokenizer(folder, tiny, {});
    const words = ['--target', folder, '--cache-dir', audits.cacheFolder];
    for (const argv of [
      ['inspect', folder],
      ['generate', ...words, '--prompt', 'abc', '-n', '2', '--raw'],
      ['generate', ...common, '--drafter', folder, '--prompt', 'abc', '-n', '2', '--raw'],
    ]) {
      const { code, out, err } = await runHere(argv);
      expect(`${out}${err}`).not.toMatch(ours);
      expect([0, 2]).toContain(code);
      if (code === 2 && argv[0] === 'generate') expect(err).toMatch(/^error: [^\n]*\n(hint: {2}[^\n]*\n)?$/);
    }
  });
});
