import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createFakeTerminal } from '../../test/support/fake-terminal.js';
import { MistletoeError } from '../core/errors.js';
import { closeSentence, reportFailure } from './failure.js';

const folder = mkdtempSync(join(tmpdir(), 'mistletoe-failure-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

function report(failure: unknown): { code: number; err: string } {
  const terminal = createFakeTerminal();
  const code = reportFailure(failure, terminal);
  return { code, err: terminal.written.err };
}

function failureOf(action: () => unknown): unknown {
  try {
    action();
  } catch (failure) {
    return failure;
  }
  throw new Error('it did not fail');
}

describe('what the operating system says', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  symlinkSync(join(folder, 'loop'), join(folder, 'loop'));

  it.each([
    ['ENOENT', join(folder, 'none')],
    ['EISDIR', folder],
    ['ENOTDIR', join(file, 'inside')],
    ['ELOOP', join(folder, 'loop')],
    ['ENAMETOOLONG', join(folder, 'x'.repeat(300))],
  ])('%s is a sentence with the path and a hint, not a bug', (code, path) => {
    const { code: exitCode, err } = report(failureOf(() => readFileSync(path)));
    expect(err).toMatch(/^error: [^\n]*\nhint: {2}[^\n]*\n$/);
    expect(err).not.toContain(code);
    // Reading a folder fails after it was opened by its path.
    if (code !== 'EISDIR')
      expect(err).toContain(`error: ${path} ${code === 'ENOENT' ? 'does not exist' : 'cannot be used: '}`);
    expect(err).not.toContain('bug');
    expect(exitCode).toBe(2);
  });

  const made = (code: string): Error =>
    Object.assign(new Error(`${code}: some words, write '/a/file'`), {
      ...{ code, errno: -1, syscall: 'write', path: '/a/file' },
    });

  it.each([
    ['EACCES', 2],
    ['EPERM', 2],
    ['EROFS', 2],
    ['EEXIST', 2],
    ['EBUSY', 2],
    ['ENOSPC', 1],
    ['EDQUOT', 1],
    ['EMFILE', 1],
    ['ENFILE', 1],
    ['ENOMEM', 1],
    ['EIO', 1],
  ])('%s ends with exit code %d', (code, exitCode) => {
    const { code: seen, err } = report(made(code));
    expect(seen).toBe(exitCode);
    expect(err).toMatch(new RegExp(`^error: /a/file cannot be used: some words\\.\nhint: {2}\\S.*\n$`)); // prettier-ignore
  });

  it('is told without a path where there is none', () => {
    const pathless = Object.assign(new Error('EMFILE: too many open files, pipe'), {
      ...{ code: 'EMFILE', errno: -24, syscall: 'pipe' },
    });
    expect(report(pathless).err).toContain('error: The system call pipe failed: too many open files.'); // prettier-ignore
  });
});

describe('sentences', () => {
  it('are one line of text that steers nothing', () => {
    const { err } = report(
      new MistletoeError('usage', 'bad "\u001b[2J\u202e\u2066\u200e\u061c"\nerror: pwned', {
        hint: 'a\r\nb',
      }),
    );
    expect(err).toBe(
      'error: bad "\ufffd[2J\ufffd\ufffd\ufffd\ufffd" error: pwned.\nhint:  a b.\n'.replace(
        'error: pwned.',
        'error: pwned.',
      ),
    );
    expect(closeSentence('one\n two ')).toBe('one two.');
  });

  it('call a bug only what nobody foresaw', () => {
    const { code, err } = report(new TypeError('x is undefined'));
    expect(code).toBe(1);
    expect(err).toContain('this is a bug in Mistletoe');
  });
});
