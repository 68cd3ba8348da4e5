import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { run } from '../../src/cli/program.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { bundledCache } from '../support/model-folders.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { main } = transpileForTests('cli');

function start(...argv: string[]): ChildProcessWithoutNullStreams {
  // In CI the test runner forces colours for itself; a pipe must stay plain all the same.
  const environment: NodeJS.ProcessEnv = {
    ...process.env,
    MISTLETOE_CACHE: bundledCache,
    CI: 'true',
  };
  delete environment.FORCE_COLOR;
  return spawn(process.execPath, [main, ...argv], {
    env: environment,
  });
}

async function finish(
  child: ChildProcessWithoutNullStreams,
): Promise<{ code: number | null; out: string; err: string }> {
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
}

describe('the command line in a process of its own', () => {
  it('answers a prompt from stdin with the bundled model', async () => {
    const child = start('generate', '--prompt', '-', '-n', '6', '--format', 'json');
    child.stdin.end('Give three tips for staying healthy.\n');
    const { code, out, err } = await finish(child);
    expect(err).toBe('');
    expect(JSON.parse(out)).toMatchObject({ finishReason: 'length' });
    expect(code).toBe(0);
  });

  it('refuses with exit code 2 and no stack trace', async () => {
    const { code, out, err } = await finish(start('inspect', '--fromat', 'json', '.'));
    expect(err).toBe("error: Unknown option '--fromat'.\nhint:  Did you mean --format?\n");
    expect(out).toBe('');
    expect(code).toBe(2);
  });

  it('ends at SIGINT with the text so far and exit code 130', async () => {
    const child = start('generate', '--prompt', 'Tell me a long story.', '-n', '1500');
    child.stdout.once('data', () => child.kill('SIGINT'));
    const { code, out, err } = await finish(child);
    expect(out).toMatch(/\S\n$/);
    expect(err).toMatch(/interrupted\n$/);
    expect(code).toBe(130);
  });

  it('ends quietly when the reader goes away', async () => {
    const child = start('generate', '--prompt', 'Tell me a long story.', '-n', '1500');
    child.stdout.once('data', () => {
      child.stdout.destroy();
    });
    const { code, err } = await finish(child);
    expect(err).not.toMatch(/error|EPIPE/);
    expect(code).toBe(0);
  });
});

describe('help and failures', () => {
  it.each([['--help'], ['generate', '--help'], ['inspect', '--help'], ['help', 'generate']])(
    'helps with examples: %s %s',
    async (...argv) => {
      const terminal = createFakeTerminal();
      expect(await run(argv, terminal)).toBe(0);
      expect(terminal.written.out).toMatch(/^Usage: mistletoe/);
      expect(terminal.written.out).toMatch(/Examples:\n(?:  # .*\n)?  mistletoe /);
      expect(terminal.written.err).toBe('');
    },
  );

  it('prints the version of the package', async () => {
    const terminal = createFakeTerminal();
    expect(await run(['--version'], terminal)).toBe(0);
    expect(terminal.written.out).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it('shows the help on stderr when no command is given', async () => {
    const terminal = createFakeTerminal();
    expect(await run([], terminal)).toBe(2);
    expect(terminal.written.err).toMatch(/^Usage: mistletoe/);
  });

  it('calls the unforeseen a bug, with a stack only where it is asked for', async () => {
    const explode = (environment: Record<string, string>) => {
      const terminal = createFakeTerminal({ environment });
      const broken = { ...terminal, readStdin: () => Promise.reject(new TypeError('no such thing')) };
      return run(['generate', '--prompt', '-'], broken).then((code) => ({ code, err: terminal.written.err }));
    };
    const quiet = await explode({});
    expect(quiet.code).toBe(1);
    expect(quiet.err).toMatch(/^error: .*no such thing.*bug in Mistletoe\.\nhint: .*\n$/);
    const loud = await explode({ MISTLETOE_DEBUG: '1' });
    expect(loud.err).toMatch(/\n +at /);
  });
});
