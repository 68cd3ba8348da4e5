import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { quoteWord, shortenPath } from './files.js';

describe('shortenPath', () => {
  it.each([
    ['models/x', 'models/x'],
    ['../x', '../x'],
    [join(process.cwd(), 'models/x'), 'models/x'],
    [process.cwd(), '.'],
    ['/home/alice/models/x', '.../x'],
    ['/home/alice/models/x/', '.../x'],
    ['/home/alice/s.jsonl, line 3', '.../s.jsonl, line 3'],
    ['built in: vicuna', 'built in: vicuna'],
  ])('%s is shown as %s', (path, shown) => {
    expect(shortenPath(path)).toBe(shown);
  });
});

describe('quoteWord', () => {
  it.each([
    ['runs/a-1', 'runs/a-1'],
    ['my run', "'my run'"],
    ["it's", "'it'\\''s'"],
    ['$(x)', "'$(x)'"],
    ['', "''"],
  ])('%s becomes %s', (word, quoted) => {
    expect(quoteWord(word)).toBe(quoted);
  });
});
