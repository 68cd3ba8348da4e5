import { describe, expect, it } from 'vitest';
import { agree, extractAnswer } from './kept-class.js';

describe('extractAnswer', () => {
  it.each([
    ['She sells 9 eggs at $2.\n#### 18', '18'],
    ['#### 42.', '42'],
    ['####42', '42'],
    ['#### $1,200.00', '1200'],
    ['#### -7', '-7'],
    ['#### -$7', '-7'],
    ['#### $-7', '-7'],
    ['#### **12**', '12'],
    ['#### 1,00,000', '100000'],
    ['#### 0.50', '0.5'],
    ['#### 5\nQuestion: another with 9 eggs\n#### 9', '5'],
  ])('reads the marker in %j', (text, answer) => {
    expect(extractAnswer(text)).toBe(answer);
  });

  it.each([
    ['So the answer is 42.', '42'],
    ['The answer is $1,234,567.', '1234567'],
    ['It costs $.50', '0.5'],
    ['3 + 4 = 7 apples', '7'],
    ['10-4', '4'],
    ['(10)-4', '4'],
    ['a loss of -4', '-4'],
    ['a loss of −4', '-4'],
    ['a loss of -$4.00', '-4'],
    ['the list 1,2,3', '3'],
    ['007', '7'],
    ['-0', '0'],
    ['75%', '75'],
    ['\\boxed{81}', '81'],
    ['#### unknown, perhaps 6', '6'],
    ['the year 12345,678', '678'],
    ['99999999999999999999', '99999999999999999999'],
  ])('takes the last number of %j', (text, answer) => {
    expect(extractAnswer(text)).toBe(answer);
  });

  it.each(['', 'no number here', '#### none', '$ , .'])('finds nothing in %j', (text) => {
    expect(extractAnswer(text)).toBeUndefined();
  });

  it('does not read a marker across lines', () => {
    expect(extractAnswer('####\n3 or rather 4')).toBe('4');
  });
});

describe('agree', () => {
  it('compares numbers, not their spelling', () => {
    expect(agree('#### 1200', 'That makes $1,200.00.')).toBe(true);
    expect(agree('#### 12', '#### 13')).toBe(false);
    expect(agree('#### 5', '#### -5')).toBe(false);
    expect(agree('99999999999999999999', '99999999999999999998')).toBe(false);
  });

  it('is false where a side has no answer, even both', () => {
    expect(agree('none', '#### 1')).toBe(false);
    expect(agree('none', 'none')).toBe(false);
  });
});
