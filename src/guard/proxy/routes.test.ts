import { describe, expect, it } from 'vitest';
import { matchRoute } from './request-router.js';

describe('matchRoute', () => {
  it.each([
    ['/v1/chat/completions', '/v1/chat/completions'],
    ['/v1/chat/completion%73', '/v1/chat/completions'],
    ['//v1//chat/completions', '/v1/chat/completions'],
    ['/v1/./chat/completions/', '/v1/chat/completions'],
    ['/tokenize/../v1/chat/completions', '/v1/chat/completions'],
    ['/V1/Chat/Completions', '/v1/chat/completions'],
    ['/openai/v1/responses', '/v1/responses'],
    ['/%zz/v1/messages', '/v1/messages'],
    ['/invocations', '/invocations'],
    ['/infill', '/infill'],
    ['/api/chat', '/api/chat'],
    ['/generate', '/generate'],
    ['/a/path/of/tomorrow', 'other'],
    ['/', 'other'],
  ])('watches %s as %s', (path, route) => {
    for (const method of ['POST', 'PUT'])
      expect(matchRoute(method, path)).toEqual({ route, isWatched: true });
  });

  it('lets known harmless paths pass, but not other spellings of them', () => {
    expect(matchRoute('POST', '/v1/embeddings').isWatched).toBe(false);
    expect(matchRoute('POST', '/v1/%65mbeddings').isWatched).toBe(true);
    expect(matchRoute('POST', '/v1/chat/completions/../../embeddings').isWatched).toBe(true);
    expect(matchRoute('GET', '/v1/models').isWatched).toBe(false);
  });

  it('keeps a bounded number of paths', () => {
    for (let path = 0; path < 10_000; path++) matchRoute('POST', `/x/${path}`);
    expect(matchRoute('POST', '/v1/completions').route).toBe('/v1/completions');
  });
});
