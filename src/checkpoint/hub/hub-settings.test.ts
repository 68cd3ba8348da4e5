import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readHubSettings } from './hub-settings.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

const read = (environment: Record<string, string>, home = '/home/me') =>
  readHubSettings({ environment, home });

describe('what the environment says of the hub', () => {
  it.each([
    [{}, '/home/me/.cache/huggingface/hub'],
    [{ XDG_CACHE_HOME: '/x' }, '/x/huggingface/hub'],
    [{ XDG_CACHE_HOME: '/x', HF_HOME: '/h' }, '/h/hub'],
    [{ XDG_CACHE_HOME: '/x', HF_HOME: '/h', HF_HUB_CACHE: '/c' }, '/c'],
    [{ HF_HUB_CACHE: '', HF_HOME: '' }, '/home/me/.cache/huggingface/hub'],
    [{ HF_HOME: '~/h' }, '/home/me/h/hub'],
    [{ HF_HUB_CACHE: '~other/c' }, '~other/c'],
  ])('%j puts the cache at %s', (environment, folder) => {
    expect(read(environment).cacheFolder).toBe(folder);
  });

  it.each([
    [undefined, 'https://huggingface.co'],
    ['https://mirror.example/', 'https://mirror.example'],
    ['http://127.0.0.1:8080/api/hub//', 'http://127.0.0.1:8080/api/hub'],
  ])('HF_ENDPOINT %s is %s', (given, endpoint) => {
    expect(read(given === undefined ? {} : { HF_ENDPOINT: given }).endpoint).toBe(endpoint);
  });

  it.each([
    ...['huggingface.co', 'ftp://hub', 'file:///etc', 'https://hub?x=1', 'https://hub#x'],
    'https://me:secret@hub',
  ])('refuses the endpoint %s, without showing it', (endpoint) => {
    const failure = expect.objectContaining({
      code: 'usage',
      message: expect.not.stringContaining('secret') as string,
    }) as Error;
    expect(() => read({ HF_ENDPOINT: endpoint })).toThrow(failure);
  });

  it.each([
    ['1', true],
    ['true', true],
    ['ON', true],
    ['0', false],
    ['', false],
  ])('HF_HUB_OFFLINE=%s', (value, isOffline) => {
    expect(read({ HF_HUB_OFFLINE: value }).isOffline).toBe(isOffline);
  });
});

describe('the token', () => {
  const home = join(temporary.path, 'home');
  mkdirSync(join(home, '.cache/huggingface'), { recursive: true });
  writeFileSync(join(home, '.cache/huggingface/token'), 'hf_file\n');
  const elsewhere = join(temporary.path, 'elsewhere');
  writeFileSync(elsewhere, ' hf_elsewhere ');

  it.each([
    [{}, 'hf_file'],
    [{ HF_TOKEN: 'hf_own' }, 'hf_own'],
    [{ HF_TOKEN: '' }, 'hf_file'],
    [{ HF_TOKEN_PATH: elsewhere }, 'hf_elsewhere'],
    [{ HF_HOME: '/no/such/folder' }, undefined],
  ])('%j gives %s', async (environment, token) => {
    await expect(read(environment, home).readToken()).resolves.toBe(token);
  });

  it('is refused where no header can carry it, without being shown', async () => {
    const failure: unknown = await read({ HF_TOKEN: 'hf_a\r\nx: hf_b' })
      .readToken()
      .catch((cause: unknown) => cause);
    expect(failure).toMatchObject({
      code: 'usage',
      message: expect.stringContaining('HF_TOKEN holds') as string,
    });
    expect(JSON.stringify([String(failure), failure])).not.toContain('hf_');
  });

  it('is refused where its file is none', async () => {
    await expect(read({ HF_TOKEN_PATH: temporary.path }).readToken()).rejects.toThrow(
      /cannot be read: it is not a/,
    );
  });
});
