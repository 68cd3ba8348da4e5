/** Faults of disks, paths and other people's files: each is one sentence and an exit code, and none is called a bug. */
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint, writeLetterTokenizer } from '../support/tiny-checkpoints.js'; // prettier-ignore
import { FaultCommands, fullDiskMessage } from './fault-commands.js';

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
    const { code, out, err } = await commands.runHere(commands.bench('--answers', path));
    expect(err).toContain(`The folder ${path} ${message}`);
    expect([code, out]).toEqual([2, '']);
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
      const { code, out, err } = await commands.runHere(argv);
      expect(`${out}${err}`).not.toMatch(ours);
      expect([0, 2]).toContain(code);
      if (code === 2 && argv[0] === 'generate') expect(err).toMatch(/^error: [^\n]*\n(hint: {2}[^\n]*\n)?$/);
    }
  });
});
