import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { createFakeTerminal } from '../../test/support/fake-terminal.js';
import { nestedAliases } from '../../test/fuzz/corpus/bombs.js';
import { run } from './program.js';

let file = '';
const write = (text: string): void => {
  writeFileSync(file, text);
};

async function show(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const terminal = createFakeTerminal();
  const code = await run(argv, terminal);
  return { code, ...terminal.written };
}

beforeAll(() => {
  file = join(mkdtempSync(join(tmpdir(), 'mistletoe-config-')), 'settings.yaml');
});

describe('--config and --show-config', () => {
  it('reads flag names in either spelling; flags win', async () => {
    write('steps: 7\nsuffixLength: 5\ncontrol-searches: true\ndrafter: [sps, eagle3]\n');
    const { code, out } = await show('audit', '--config', file, '--steps', '9', '--show-config');
    expect(code).toBe(0);
    expect(out).toContain('steps: 9\n');
    expect(out).toContain('suffix-length: 5\n');
    expect(out).toContain('control-searches: true\n');
    expect(out).toContain('drafter:\n  - sps\n  - eagle3\n');
    expect(out).toContain('candidates: 8\n');
  });

  it.each(['audit', 'train', 'harden'])('%s prints settings that it accepts again', async (command) => {
    const first = await show(command, '--show-config');
    write(first.out);
    expect(await show(command, '--config', file, '--show-config')).toEqual({ ...first, code: 0 });
  });

  it.each([
    ['stepps: 7', 'has an unknown setting: stepps.', 'Did you mean steps?'],
    ['steps: many', 'steps is "many"; a whole number from 1 to 1000000 was expected.', '--steps'],
    ['- a', 'has no settings', 'one setting a line'],
    ['a: [', ':1:5: invalid YAML: Flow sequence', 'one setting a line'],
    ['drafter: &a [*a]', ':1:14: aliases are not supported', 'one setting a line'],
    ['steps: &a {b: *a}', ':1:15: aliases are not supported', ''],
    ['? [steps]\n: 7', ':1:3: expected a name', ''],
  ])('refuses %s', async (text, sentence, hint) => {
    write(text);
    const { code, err } = await show('audit', '--config', file, '--show-config');
    expect(code).toBe(2);
    expect(err).toContain(sentence);
    expect(err).toContain(hint);
  });

  it('names a missing file without an error code', async () => {
    const { code, err } = await show('audit', '--config', `${file}.missing`, '--show-config');
    expect(code).toBe(2);
    expect(err).toContain(`${file}.missing does not exist.`);
    expect(err).not.toContain('ENOENT');
  });

  it.each([
    ['aliases that unfold into 9^12 texts', nestedAliases(12), ':2:10: aliases are not supported'],
    ['nested names', `steps: ${'? '.repeat(1000)}`, ':1:'],
    ['a file of 40,000 bytes', '#'.repeat(40_000), 'it has 40000 bytes, and 32768 are the most that is read'],
  ])('refuses %s in one sentence', async (_, text, sentence) => {
    write(text);
    const { code, err } = await show('audit', '--config', file, '--show-config');
    expect(code).toBe(2);
    expect(err).toContain(sentence);
  });
});

describe('old names', () => {
  it('still work, with a note', async () => {
    const { out, err } = await show('train', '--warmup', '3', '--show-config');
    expect(out).toContain('warmup-steps: 3\n');
    expect(err).toBe('note:  --warmup is now --warmup-steps; the old name still works.\n');
  });

  it('suggests only near misses', async () => {
    expect((await show('inspect', '--fromat', 'json', '.')).err).toContain('Did you mean --format?');
    expect((await show('inspect', '--xyz', '.')).err).not.toContain('Did you mean');
  });
});
