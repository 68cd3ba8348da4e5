/** Names, ids, notes and answers of strangers in a terminal: whatever they hold, they are shown and never obeyed. */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/program.js';
import { writeChangedTarget } from '../support/model-folders.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { TinyAudits } from '../support/tiny-audit.js';

const audits = new TinyAudits();
afterAll(() => audits.dispose());

/** Clears the screen, names the window, asks for an answer, colours, turns the direction, and begins a line. */
const hostile = 'x\u001b[2J\u001b]0;owned\u0007\u001b[6n\u001b[31m\u009b1A\u202e\u2066\u200f\rerror: pwned';
/** Our own: colours of the palette, and the cursor of the progress bar. */
const ours = /\u001b\[(?:1|2|22|31|32|33|36|39)m|\r?\u001b\[\d*[A-HJK]/g;
const steering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

interface Shown {
  readonly code: number;
  /** What readers see, without what we write on purpose. */
  readonly out: string;
  readonly err: string;
}

async function show(argv: readonly string[], isTerminal: boolean): Promise<Shown> {
  const terminal = createFakeTerminal({ isTerminal });
  const code = await run([...argv], terminal);
  const { out, err } = terminal.written;
  for (const text of [out, err]) {
    expect(text).not.toMatch(/\u001b\[(?:2J|6n|31mx)|\u001b\]/);
    expect(text.replace(ours, '')).not.toMatch(steering);
  }
  return { code, out: out.replace(ours, ''), err: err.replace(ours, '') };
}

let prompts: string;
let drafter: string;
beforeAll(() => {
  prompts = join(audits.cacheFolder, 'prompts.jsonl');
  mkdirSync(audits.cacheFolder, { recursive: true });
  writeFileSync(prompts, `${JSON.stringify({ id: hostile, prompt: 'abcdefgh' })}\n`);
  const plain = audits.writeDrafter('EAGLE-3 with d2t');
  drafter = join(dirname(plain), `draft-${hostile}`.replaceAll('/', '-'));
  renameSync(plain, drafter);
});

describe.each([true, false])('where stdout and stderr are terminals: %s', (isTerminal) => {
  const common = (): string[] => ['--target', audits.targetFolder, '--cache-dir', audits.cacheFolder];

  it('ids of prompts and names of drafters in generate', async () => {
    const { code, out } = await show(
      ['generate', ...common(), '--prompts', prompts, '-n', '2', '--raw'],
      isTerminal,
    );
    expect(code).toBe(0);
    expect(out).toContain('[x\ufffd[2J');
    expect(out).not.toMatch(/^error: pwned/m);
  });

  it('progress and tables of bench', async () => {
    const { code, err } = await show(
      ['bench', ...common(), '-d', drafter, '--prompts', prompts, '-n', '4', '--warmup', '0'],
      isTerminal,
    );
    expect(code).toBe(0);
    expect(err).not.toMatch(/^error: pwned/m);
  });

  it.runIf(isTerminal)('progress, notes and the table of audit', async () => {
    const { code, out, err } = await show(
      [
        ...['audit', ...common(), '--drafter', drafter, '--prompts', prompts, '--out', audits.freshFolder()],
        ...['--draft', 'chain:3', '--threads', '1', '--preset', 'quick', '--raw', '--keep', 'distribution'],
        ...['--suffix-length', '5', '--window', '8', '--max-new-tokens', '20', '--epsilon', '3'],
        ...['--shortest-answer', '8', '--steps', '1', '--candidates', '8', '--starts', '1'],
      ],
      isTerminal,
    );
    expect(code).toBe(0);
    expect(out).toContain('draft-x\ufffd[2J');
    expect(out).not.toMatch(/^error: pwned/m);
    expect(err).not.toMatch(/^error: pwned/m);
  });

  it('folders and values of inspect', async () => {
    const folder = writeChangedTarget(join(audits.freshFolder(), hostile.replaceAll('/', '-')), {
      'config.json': { architectures: [hostile], model_type: hostile },
    });
    const { code, out } = await show(['inspect', folder], isTerminal);
    expect(code).toBe(2);
    expect(out).not.toMatch(/^error: pwned/m);
  });

  it.each([
    ...[
      ['generate', '--prompt', 'a', '--target', `/no/${hostile}`],
      ['generate', '--prompts', hostile],
      ['audit', '--resume', hostile],
      ['audit', '--verify', hostile],
      ['compare', hostile, hostile],
      ['generate', `--${hostile}`],
      [hostile],
    ].entries(),
  ])('the error of bad input number %d', async (_, argv) => {
    const { code, err } = await show(argv, isTerminal);
    expect(code).toBe(2);
    expect(err).toMatch(/^error: [^\n]*\ufffd[^\n]*\n(hint: {2}[^\n]*\n)?$/);
  });
});

describe('a model’s text', () => {
  const pieces = { 3: '\u001b[2J', 4: '\u202e', 5: '\u007f' };
  const steered = new TinyAudits(undefined, pieces);
  afterAll(() => steered.dispose());
  const answer = async (isTerminal: boolean, format: string): Promise<string> => {
    const terminal = createFakeTerminal({ isTerminal, environment: { NO_COLOR: '1' } });
    const common = ['--target', steered.targetFolder, '--cache-dir', steered.cacheFolder, '--raw'];
    const words = ['generate', ...common, '--prompt', 'abcdefgh', '-n', '40', '--format', format];
    expect(await run(words, terminal)).toBe(0);
    return terminal.written.out;
  };

  it('goes into files and pipes as it is, and cleaned to a terminal', async () => {
    const { text } = JSON.parse(await answer(false, 'json')) as { readonly text: string };
    expect(text).toMatch(/[\u001b\u202e\u007f]/);
    const piped = await answer(false, 'text');
    expect(piped).toBe(`${text}${text.endsWith('\n') ? '' : '\n'}`);
    expect(await answer(true, 'text')).toBe(piped.replace(/[\u001b\u202e\u007f]/g, '\ufffd'));
  });

  it('is JSON in files and pipes that says the very same', async () => {
    const line = await answer(false, 'json');
    expect(line).not.toContain('\u001b');
    expect(line).not.toContain('\ufffd');
    expect(await answer(true, 'json')).not.toMatch(steering);
  });
});
