import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { stripVTControlCharacters } from 'node:util';
import { demo, expectFirstAct, playFirstAct, textsOf } from './demo-acts.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

describe('mistletoe demo', () => {
  it('shows the answer twice, the same, in 80 columns, and measures', async () => {
    expectFirstAct(await playFirstAct());
  });

  it('colors instead of brackets on a terminal', async () => {
    const { code, out } = await playFirstAct({ isTerminal: true });
    expect(code).toBe(0);
    expect(out).not.toContain('⟨');
    expect(out).toMatch(/│.*\u001b\[32m/);
    const [plain, drafted] = textsOf(stripVTControlCharacters(out));
    expect(drafted).toBe(plain);
  });

  it('refuses quantized weights, which promise no equal answers', async () => {
    const { code, err } = await demo(['--act', '1', '--dtype', 'int8']);
    expect(code).toBe(2);
    expect(err).toContain('--dtype is int8, which serves decoding alone');
  });

  it('ends at Ctrl-C with exit code 130', async () => {
    const { code, out } = await playFirstAct({
      onWrite: ({ interrupt }) => {
        interrupt();
      },
    });
    expect(code).toBe(130);
    expect(out).not.toContain('tokens/s');
  });

  it('leaves an audit that can be resumed at Ctrl-C in the second act', async () => {
    const folder = join(temporary.path, 'run');
    const { code, out } = await demo(['--act', '2', '--out', folder], {
      onWrite: ({ interrupt }) => {
        interrupt();
      },
    });
    expect(code).toBe(130);
    expect(out).toContain(`Resume with: mistletoe audit --resume ${folder}`);
    expect(existsSync(join(folder, 'config.json'))).toBe(true);
    expect(existsSync(join(folder, 'result.json'))).toBe(false);
  });
});
