import { expect, it } from 'vitest';
import { MistletoeError } from './errors.js';

it('quotes both ends of a long message', () => {
  const { message } = new MistletoeError('usage', `The value ${'😀'.repeat(5000)} is not understood.`);
  expect(message.length).toBeLessThan(1510);
  expect(message).toMatch(/^The value 😀+ … 😀+ is not understood\.$/u);
  expect(new MistletoeError('usage', 'Short.').message).toBe('Short.');
});
