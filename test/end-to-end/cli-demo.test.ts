import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { demo, expectFirstAct, playFirstAct } from './demo-acts.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

describe('mistletoe demo', () => {
  it('shows each text twice, the same, in 80 columns, and measures', async () => {
    expectFirstAct(await playFirstAct(10));
  });

  it('ends at Ctrl-C with exit code 130', async () => {
    const { code, out } = await playFirstAct(10, {
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
    expect(out).toContain(`Go on with: mistletoe audit --resume ${folder}`);
    expect(existsSync(join(folder, 'config.json'))).toBe(true);
    expect(existsSync(join(folder, 'result.json'))).toBe(false);
  });
});
