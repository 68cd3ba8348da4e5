import { describe, expect, it } from 'vitest';
import { createAccess, parseKeys, readKeys } from './access.js';

describe('keys', () => {
  it('are read one a line, alone or after a name', () => {
    const text = '# of the team\n\nalice 0123456789\r\n  abcdefghij  \n';
    expect(parseKeys(text, 'keys.txt')).toEqual([
      { name: 'alice', key: '0123456789' },
      { name: 'key-2', key: 'abcdefghij' },
    ]);
  });

  it.each([
    ['', 'keys.txt has no key.'],
    ['# nothing\n', 'keys.txt has no key.'],
    ['alice short', 'Key 1 of keys.txt has 5 characters'],
    ['0123456789\na b c', 'Key 2 of keys.txt has 3 words'],
  ])('%j is refused, without showing a key', (text, message) => {
    expect(() => parseKeys(text, 'keys.txt')).toThrow(message);
  });

  it('come from a file that is there', async () => {
    await expect(readKeys('/nowhere/keys.txt')).rejects.toThrow('/nowhere/keys.txt does not exist');
  });

  it('admit by name whoever shows one of them, in any case of the word Bearer', () => {
    const access = createAccess([
      { name: 'a', key: 'first-key' },
      { name: 'b', key: 'second-key' },
    ]);
    expect(access('Bearer second-key')).toBe('b');
    expect(access('bearer first-key')).toBe('a');
    for (const shown of [null, '', 'Bearer', 'Bearer first-key second-key', 'Bearer first-ke'])
      expect(() => access(shown)).toThrow(/key/);
    expect(createAccess([])(null)).toBe('anonymous');
  });
});
