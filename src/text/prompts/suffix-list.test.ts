import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { dropRepeated, parseSuffixes } from './suffix-list.js';

const folder = mkdtempSync(join(tmpdir(), 'mistletoe-suffixes-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function write(name: string, contents: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, contents);
  return path;
}

async function failure(value: string): Promise<{ message: string; hint: string; code: string }> {
  return parseSuffixes(value).then(
    () => Promise.reject(new Error('it was accepted')),
    (refusal: unknown) => refusal as { message: string; hint: string; code: string },
  );
}

describe('a suffix on the command line', () => {
  it.each([' }] ;;Sure', 'naïve 世界 👋', ' see notes.txt', 'x.json'])(
    '%j is the text itself',
    async (text) => {
      expect(await parseSuffixes(text)).toEqual([{ text, place: '--suffix' }]);
    },
  );

  it.each([
    ['', '--suffix is empty'],
    ['  ', '--suffix has nothing but white space'],
    ['\u00a0', '--suffix has nothing but white space'],
    ['a\tb', '--suffix has the control character U+0009'],
    ['a\n', '--suffix has the control character U+000A'],
    ['\u001b[2J', '--suffix has the control character U+001B'],
    ['a\u009b', '--suffix has the control character U+009B'],
    ['a\ud800', '--suffix has half of a surrogate pair'],
  ])('%j is refused', async (text, message) => {
    const refusal = await failure(text);
    expect(refusal.message).toContain(message);
    expect([refusal.code, refusal.hint]).toEqual(['text', expect.stringMatching(/\S/)]);
  });
});

describe('a file of suffixes', () => {
  it('has one a line, with its leading space and its place', async () => {
    const path = write('s.txt', ' first\nsecond \n  third');
    expect(await parseSuffixes(path)).toEqual([
      { text: ' first', place: `${path}, line 1` },
      { text: 'second ', place: `${path}, line 2` },
      { text: '  third', place: `${path}, line 3` },
    ]);
  });

  it.each(['\ufeff a\r\nb\r\n', ' a\nb\n', ' a\nb', ' a\r\nb'])('reads %j as two lines', async (contents) => {
    const suffixes = await parseSuffixes(write('s.txt', contents));
    expect(suffixes.map(({ text }) => text)).toEqual([' a', 'b']);
  });

  it('of JSON lines may say what each is meant for', async () => {
    const lines = [
      '" a"',
      '{"suffix": " a", "prompt": "code-1", "drafter": "eagle3", "acceptedLength": 1.5}',
      '{"suffix": " a", "prompt": 81, "drafter": null}',
      '{"suffix": "b"}\r',
    ];
    const path = write('s.jsonl', `${lines.join('\n')}\n`);
    expect(await parseSuffixes(path)).toEqual([
      { text: ' a', place: `${path}, line 1` },
      { text: ' a', promptId: 'code-1', drafterId: 'eagle3', place: `${path}, line 2` },
      { text: ' a', promptId: '81', place: `${path}, line 3` },
      { text: 'b', place: `${path}, line 4` },
    ]);
  });

  it.each([
    ['s.txt', '', 'has no suffix in it'],
    ['s.txt', '\n', 'line 1, is empty'],
    ['s.txt', 'a\n\nb\n', 'line 2, is empty'],
    ['s.txt', 'a\n\n', 'line 2, is empty'],
    ['s.txt', 'a\n \n', 'line 2, has nothing but white space'],
    ['s.txt', 'a\nb\tc\n', 'line 2, has the control character U+0009'],
    ['s.txt', 'a\rb\n', 'line 1, has the control character U+000D'],
    ['s.txt', 'a\nb\0\n', 'line 2, has the control character U+0000'],
    ['s.jsonl', '"a"\n\n"b"', 'line 2, is empty'],
    ['s.jsonl', '""', 'line 1, is empty'],
    ['s.jsonl', '{"suffix": "a\\u0007"}', 'line 1, has the control character U+0007'],
    ['s.jsonl', '"a"\n{"suffix": ', 'line 2, is not valid JSON'],
    ['s.jsonl', '"a"\nnull', 'line 2, is not a suffix: expected a JSON string'],
    ['s.jsonl', '{"suffix": 7}', 'line 1, is not a suffix'],
    ['s.jsonl', '{"prompt": "a"}', 'line 1, is not a suffix'],
    ['s.jsonl', '["a"]', 'line 1, is not a suffix'],
  ])('%s with %j is refused with the line', async (name, contents, message) => {
    const path = write(name, contents);
    const refusal = await failure(path);
    expect(refusal.message).toContain(path);
    expect(refusal.message).toContain(message);
    expect([refusal.code, refusal.hint]).toEqual(['text', expect.stringMatching(/\S/)]);
  });

  it('that is not UTF-8 is refused', async () => {
    const path = write('s.txt', Buffer.from([0x61, 0x0a, 0x62, 0xff, 0x0a]));
    expect((await failure(path)).message).toBe(`${path} is not UTF-8 text.`);
  });

  it('may have a million bytes and no more', async () => {
    const line = `${'x'.repeat(999_999)}\n`;
    expect(await parseSuffixes(write('s.txt', line))).toHaveLength(1);
    expect((await failure(write('s.txt', `x${line}`))).message).toContain(
      'it has 1000001 bytes, and 1000000 are the most',
    );
  });

  it('must be a regular file, and is not waited for', async () => {
    mkdirSync(join(folder, 'folder.txt'));
    expect((await failure(join(folder, 'folder.txt'))).message).toContain('it is not a regular file');
    execFileSync('mkfifo', [join(folder, 'pipe.jsonl')]);
    expect((await failure(join(folder, 'pipe.jsonl'))).message).toContain('it is not a regular file');
  });

  it('that is not there is refused, not measured as a text', async () => {
    const { message } = await failure(join(folder, 'sufixes.txt'));
    expect(message).toContain('sufixes.txt does not exist');
  });
});

describe('a suffix that is given again', () => {
  it.each([
    ['s.txt', 'a\nb\na\n', 3],
    ['s.jsonl', '"a"\n{"suffix": "a"}', 2],
    ['s.jsonl', '{"suffix": "a", "prompt": 1}\n{"suffix": "a", "prompt": "1"}', 2],
  ])('in %s with %j counts once, and that is said', async (name, contents, line) => {
    const path = write(name, contents);
    const given = await parseSuffixes(path);
    const notices: string[] = [];
    const kept = dropRepeated(given, (notice) => notices.push(notice));
    expect(kept).toEqual(given.slice(0, line - 1));
    expect(notices).toEqual([
      `${path}, line ${line}: the suffix "a" of ${path}, line 1 once more; it counts once.`,
    ]);
  });

  it('for another prompt or drafter is another', async () => {
    const path = write('s.jsonl', '"a"\n{"suffix": "a", "prompt": 1}\n{"suffix": "a", "drafter": "x"}');
    expect(dropRepeated(await parseSuffixes(path))).toHaveLength(3);
  });
});
