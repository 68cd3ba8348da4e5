import { describe, expect, it } from 'vitest';
import { formatDay, parseDay, today } from './calendar-day.js';

describe('a calendar day', () => {
  it('is the local day of a clock', () => {
    expect(today(new Date(2024, 6, 26, 23, 59))).toBe('2024-07-26');
    expect(today(new Date(987, 0, 2))).toBe('0987-01-02');
  });

  it('is read strictly', () => {
    expect(parseDay('2024-02-29', '--date')).toBe('2024-02-29');
    for (const text of [
      '',
      'today',
      '2023-02-29',
      '2024-13-01',
      '2024-00-10',
      '2024-7-26',
      '2024-07-26T00:00',
    ]) {
      expect(() => parseDay(text, '--date')).toThrow(
        `--date is ${text}; a day such as 2024-07-26 was expected.`,
      );
    }
  });

  // python3 -c "import datetime; print(datetime.date(2024, 7, 6).strftime('...'))" in the C locale
  it.each([
    ['%d %b %Y', '06 Jul 2024'],
    ['%B %-d, %Y', 'July 6, 2024'],
    ['%A, %a, %j, %y, %e, %F, %m/%-m, 100 %%d', 'Saturday, Sat, 188, 24,  6, 2024-07-06, 07/7, 100 %d'],
    ['no directive', 'no directive'],
  ])('is formatted as Python does: %s', (format, text) => {
    expect(formatDay('2024-07-06', format)).toBe(text);
  });

  it.each(['%H:%M', '%', 'ends in %-', '%Q'])('refuses what a day cannot answer: %s', (format) => {
    expect(() => formatDay('2024-07-06', format)).toThrow(/strftime_now was asked for "%/);
  });
});
