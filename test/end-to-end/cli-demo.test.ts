import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../src/checkpoint/testing/temporary-folder.js';
import { run } from '../../src/cli/program.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

interface Shown {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function play(argv: readonly string[], options: FakeTerminalOptions = {}): Promise<Shown> {
  const terminal = createFakeTerminal(options);
  const cache = join(temporary.path, 'cache');
  return { code: await run(['demo', ...argv, '--cache-dir', cache], terminal), ...terminal.written };
}

const demo = (options?: FakeTerminalOptions): Promise<Shown> =>
  play(['--act', '1', '-n', '24', '--runs', '1'], options);

/** The words of each text behind the gutter, in the order shown: wrapping may differ, since brackets take room. */
function textsOf(out: string): string[] {
  const blocks = out.split('\n').map((line) => (line.startsWith('│ ') ? line.slice(2) : '\0'));
  const texts = blocks
    .join('\n')
    .split('\0')
    .map((text) => text.replace(/[⟨⟩]/g, '').trim());
  return texts.filter((text) => text !== '').map((text) => text.replace(/\s+/g, ' '));
}

describe('mistletoe demo', () => {
  it('shows each text twice, the same, in 80 columns, and measures', async () => {
    const { code, out, err } = await demo();
    expect(err).toBe('');
    expect(code).toBe(0);
    const texts = textsOf(out);
    expect(texts).toHaveLength(4);
    expect(texts[1]).toBe(texts[0]);
    expect(texts[3]).toBe(texts[2]);
    expect(texts[0]!.length).toBeGreaterThan(20);
    expect(out.match(/Equal, token for token\./g)).toHaveLength(2);
    expect(out.match(/^ {2}plain +\d+ tokens\/s/gm)).toHaveLength(2);
    expect(out.match(/^ {2}EAGLE-3, (chain:4|auto) +\d+ tokens\/s .*\d\.\d\dx$/gm)).toHaveLength(4);
    expect(out).toMatch(/⟨text⟩ {2}drafted by EAGLE-3/);
    expect(out).toMatch(/^│ .*⟨[^⟨⟩]+⟩/m);
    expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('colours instead of brackets on a terminal', async () => {
    const { code, out } = await demo({ isTerminal: true });
    expect(code).toBe(0);
    expect(out).not.toContain('⟨');
    expect(out).toMatch(/│.*\u001b\[32m/);
    const texts = textsOf(stripVTControlCharacters(out));
    expect(texts[1]).toBe(texts[0]);
    expect(texts[3]).toBe(texts[2]);
  });

  it('ends at Ctrl-C with exit code 130', async () => {
    const { code, out } = await demo({
      onWrite: ({ interrupt }) => {
        interrupt();
      },
    });
    expect(code).toBe(130);
    expect(out).not.toContain('tokens/s');
  });

  it('leaves an audit that can be gone on with at Ctrl-C in the second act', async () => {
    const folder = join(temporary.path, 'run');
    const { code, out } = await play(['--act', '2', '--out', folder], {
      onWrite: ({ interrupt }) => {
        interrupt();
      },
    });
    expect(code).toBe(130);
    expect(out).toContain(`Go on with: mistletoe audit --resume ${folder}`);
    expect(existsSync(join(folder, 'config.json'))).toBe(true);
    expect(existsSync(join(folder, 'result.json'))).toBe(false);
  });
});
