import { describe, expect, it } from 'vitest';
import { formatHubId, parseHubId } from './hub-settings.js';

describe('names on the hub', () => {
  it.each([
    ['lmsys/vicuna-7b-v1.5', 'lmsys/vicuna-7b-v1.5', 'main'],
    ['yuhuili/EAGLE3-LLaMA3.1-Instruct-8B@main', 'yuhuili/EAGLE3-LLaMA3.1-Instruct-8B', 'main'],
    ['a/b@refs/pr/12', 'a/b', 'refs/pr/12'],
    ['a_b/_c@v1.0', 'a_b/_c', 'v1.0'],
    [`a/b@${'0'.repeat(40)}`, 'a/b', '0'.repeat(40)],
  ])('%s is one', (text, repository, revision) => {
    const id = parseHubId(text);
    expect(id).toEqual({ repository, revision });
    expect(formatHubId(id!)).toBe(text.replace(/@main$/, ''));
  });

  it.each([
    ...[
      'model',
      './model',
      '../model',
      '.../model',
      'org/..',
      'org/.',
      'org/',
      '/name',
      '/abs/name',
      'a/b/c',
    ],
    ...[
      'org/na me',
      'org/näme',
      'org/na\nme',
      'org/name\n',
      'org/a--b',
      'or--g/a',
      'org/a..b',
      'org/-a',
      'org/a.',
    ],
    ...[
      'C:\\org\\name',
      'org\\name',
      'https://hub/org',
      'org/name?x',
      'org/name#x',
      'org/%2e%2e',
      'ngram:1,4',
      '@main',
    ],
    `org/${'x'.repeat(97)}`,
  ])('%j is none', (text) => {
    expect(parseHubId(text)).toBeUndefined();
  });

  it.each([
    '',
    '..',
    '../../etc',
    'a/../b',
    '/main',
    'main/',
    'a//b',
    'a b',
    'a\nb',
    'a?b',
    '%2e%2e',
    '-x',
    'x'.repeat(201),
  ])('refuses the revision %j', (revision) => {
    expect(() => parseHubId(`org/name@${revision}`)).toThrow(/^The revision of org\/name is ".*"; a branch/s);
  });
});
