import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createStopScanner } from './text-stream.js';

function scan(stops: readonly string[], pieces: readonly string[]) {
  const scanner = createStopScanner(stops);
  let text = '';
  let stopped = false;
  for (const piece of pieces) {
    const result = scanner.push(piece);
    text += result.emit;
    stopped = result.stopped;
  }
  return { text: text + scanner.finish(), stopped, matched: scanner.matched() };
}

/** The rule, read character by character. */
function expectedEnd(stops: readonly string[], text: string) {
  for (let end = 1; end <= text.length; end++) {
    const found = stops
      .filter((stop) => text.slice(0, end).endsWith(stop))
      .sort((left, right) => right.length - left.length)[0];
    if (found !== undefined)
      return { text: text.slice(0, end - found.length), stopped: true, matched: found };
  }
  return { text, stopped: false, matched: undefined };
}

// A two-letter alphabet makes stops, their beginnings and their overlaps frequent.
const word = (minLength: number) => fc.string({ unit: fc.constantFrom('a', 'b'), minLength, maxLength: 5 });

describe('the stop scanner', () => {
  it('ends at the stop that completes first, however the text is cut', () => {
    fc.assert(
      fc.property(fc.array(word(1), { maxLength: 3 }), fc.array(word(0)), (stops, pieces) => {
        expect(scan(stops, pieces)).toEqual(expectedEnd(stops, pieces.join('')));
      }),
      { numRuns: 1000 },
    );
  });

  it('holds back no more than what can still become a stop', () => {
    fc.assert(
      fc.property(fc.array(word(1), { maxLength: 3 }), fc.array(word(0)), (stops, pieces) => {
        const scanner = createStopScanner(stops);
        let seen = '';
        let emitted = '';
        for (const piece of pieces) {
          const { emit, stopped } = scanner.push(piece);
          seen += piece;
          emitted += emit;
          if (stopped) return;
          const held = seen.slice(emitted.length);
          expect(held === '' || stops.some((stop) => stop.startsWith(held))).toBe(true);
        }
      }),
    );
  });

  it('holds a tail and gives it out when it was none', () => {
    const scanner = createStopScanner(['\nUSER:']);
    expect(scanner.push('Hello\nUS')).toEqual({ emit: 'Hello', stopped: false });
    expect(scanner.push('A is')).toEqual({ emit: '\nUSA is', stopped: false });
    expect(scanner.push('\nUSER')).toEqual({ emit: '', stopped: false });
    expect(scanner.finish()).toBe('\nUSER');
  });

  it('stays stopped', () => {
    const scanner = createStopScanner(['###', 'END']);
    expect(scanner.push('one END two ###')).toEqual({ emit: 'one ', stopped: true });
    expect(scanner.push('more')).toEqual({ emit: '', stopped: true });
    expect(scanner.finish()).toBe('');
    expect(scanner.matched()).toBe('END');
  });

  it('refuses an empty stop', () => {
    expect(() => createStopScanner(['x', ''])).toThrow(/stop string is empty/);
  });
});
