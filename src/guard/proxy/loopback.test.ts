import { expect, it } from 'vitest';
import { isLoopback } from './operator.js';

it.each([
  ['localhost', true],
  ['::1', true],
  ['127.0.0.1', true],
  ['127.8.0.200', true],
  ['127.example.org', false],
  ['0.0.0.0', false],
  ['::', false],
  ['192.168.0.1', false],
])('%s is loopback: %s', (host, expected) => {
  expect(isLoopback(host)).toBe(expected);
});
