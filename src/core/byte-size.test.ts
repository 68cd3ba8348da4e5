import { describe, expect, it } from 'vitest';
import { formatBytes, parseBytes } from './number-text.js';

describe('parseBytes', () => {
  it.each([
    ['50GB', 50e9],
    ['50 gb', 50e9],
    ['1.5TB', 1.5e12],
    ['2GiB', 2 * 1024 ** 3],
    ['512KiB', 512 * 1024],
    ['0GB', 0],
    ['7B', 7],
  ])('%s', (text, bytes) => {
    expect(parseBytes(text)).toBe(bytes);
  });

  it.each(['', '50', 'GB', '-1GB', '1e3GB', '50G', '50GBs', '1,5GB', '2iB', 'NaNGB', '9999999TB'])(
    'refuses %j',
    (text) => {
      expect(parseBytes(text)).toBeUndefined();
    },
  );
});

describe('formatBytes', () => {
  it.each([
    [0, '0 bytes'],
    [999, '999 bytes'],
    [1000, '1.00 KB'],
    [12_345_678, '12.3 MB'],
    [999_900, '1.00 MB'],
    [64e9, '64.0 GB'],
    [2.5e12, '2.50 TB'],
    [5e15, '5000 TB'],
  ])('%i', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });
});
