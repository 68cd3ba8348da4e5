import { describe, expect, it } from 'vitest';
import { headersToPass } from './message-headers.js';

describe('header fields to pass on', () => {
  it('are those of the message, in their order and spelling', () => {
    const fields = ['X-One', 'a', 'x-two', 'b', 'X-ONE', 'c', 'Content-Type', 'text/plain'];
    expect(headersToPass(fields)).toEqual(fields);
  });

  it.each([
    ...['Connection', 'Keep-Alive', 'Proxy-Authenticate', 'Proxy-Authorization', 'Proxy-Connection'],
    ...['TE', 'Trailer', 'Transfer-Encoding', 'Upgrade'],
  ])('are without %s, which belongs to one connection', (name) => {
    expect(headersToPass([name, 'value', 'X-Kept', 'a'])).toEqual(['X-Kept', 'a']);
  });

  it('are without those that Connection lists, unless the message needs them', () => {
    const listed = ['Connection', 'x-private, Content-Length', 'Content-Length', '2'];
    expect(headersToPass([...listed, 'X-Private', 'a'])).toEqual(['Content-Length', '2']);
  });

  it('are without those to remove', () => {
    const passed = headersToPass(['Authorization', 'key', 'X-Id', '7'], new Set(['authorization']));
    expect(passed).toEqual(['X-Id', '7']);
  });
});
