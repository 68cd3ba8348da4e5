import { describe, expect, it } from 'vitest';
import { sayBars } from './demo-audit.js';

describe('bars', () => {
  const draw = (...values: number[]): string[] => {
    const lines: string[] = [];
    const say = (line = ''): void => void lines.push(line);
    const paint = (text: string): string => text;
    sayBars(
      say,
      values.map((value) => ({ name: 'x', figure: String(value), value, paint })),
    );
    return lines;
  };

  it('are as long as their values', () => {
    expect(draw(10, 5)).toEqual([`  x  10  ${'█'.repeat(32)}`, `  x   5  ${'█'.repeat(16)}`]);
  });

  it('survive values of 0', () => {
    expect(draw(0, 0)).toEqual(['  x  0  ', '  x  0  ']);
  });
});
