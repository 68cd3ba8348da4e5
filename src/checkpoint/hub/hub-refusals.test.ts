import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { HubContents } from '../../../test/support/hub-server.js';
import { refuse, sendFile, startHub } from '../../../test/support/hub-server.js';
import { createHubWorld, singleFile, weights } from '../../../test/support/checkpoint/hub-world.js';

const world = createHubWorld();
const { download, findCached, blobs, fileRequests } = world;

describe('what a download is refused for', () => {
  const failing = async (text = 'org/tiny'): Promise<unknown> => {
    const failure: unknown = await download(text).catch((cause: unknown) => cause);
    await expect(findCached(text)).rejects.toThrow(/only a part|There is no folder/);
    return failure;
  };

  it('a model that does not exist', async () => {
    expect(await failing('org/nothing')).toMatchObject({
      code: 'usage',
      message: `There is no model org/nothing on ${new URL(world.hub.endpoint).host} that may be seen (401).`,
    });
    world.hub.disturb((_, response) => { refuse(response, 404, 'RepoNotFound'); return true; }); // prettier-ignore
    expect(await failing('org/nothing')).toMatchObject({
      message: expect.stringContaining('(404)') as string,
    });
    expect(existsSync(join(world.home, 'hub'))).toBe(false);
  });

  it('a revision that does not exist', async () => {
    world.hub.add('org/tiny', singleFile);
    expect(await failing('org/tiny@v2')).toMatchObject({
      message: expect.stringContaining('has no revision v2') as string,
    });
  });

  it.each([
    [
      undefined,
      401,
      /^Accept its licence on http.*\/org\/tiny, and set HF_TOKEN to a token of your account\.$/,
    ],
    ['hf_other', 403, /; the one that was sent does not have the right\.$/],
  ])('a gated model with the token %s', async (token, status, hint) => {
    world.hub.add('org/tiny', singleFile, { isGated: true });
    if (token !== undefined) world.environment.HF_TOKEN = token;
    expect(await failing()).toMatchObject({
      code: 'usage',
      message: `org/tiny is gated on ${new URL(world.hub.endpoint).host} (${status}).`,
      hint: expect.stringMatching(hint) as string,
    });
    world.environment.HF_TOKEN = 'hf_right';
    await download('org/tiny');
  });

  it('a token that the hub does not know', async () => {
    world.environment.HF_TOKEN = 'hf_wrong';
    world.hub.disturb((_, response) => { response.writeHead(401).end(); return true; }); // prettier-ignore
    expect(await failing()).toMatchObject({
      message: expect.stringContaining('refused the token') as string,
    });
  });

  it('no network', async () => {
    const gone = await startHub();
    await gone.close();
    const { host } = new URL(gone.endpoint);
    world.environment.HF_ENDPOINT = gone.endpoint;
    expect(await failing()).toMatchObject({
      code: 'network',
      message: `${host} cannot be reached: connect ECONNREFUSED ${host}.`,
    });
  });

  it('HF_HUB_OFFLINE, before anything is asked', async () => {
    world.environment.HF_HUB_OFFLINE = '1';
    expect(await failing()).toMatchObject({
      message: 'org/tiny is not fetched while HF_HUB_OFFLINE is set.',
    });
    expect(world.hub.requests).toEqual([]);
  });

  it.each([
    [
      'GGUF alone',
      { 'README.md': '', 'tiny.gguf': 'GGUF' },
      'org/tiny/tiny.gguf is a GGUF file; folders are read if',
    ],
    ['no weights', { 'config.json': '{}', 'onnx/model.onnx': 'x' }, 'org/tiny has no weights'],
    [
      'two safetensors without index',
      { 'a.safetensors': 'a', 'b.safetensors': 'b' },
      'has 2 safetensors files',
    ],
    [
      'an index that leads out',
      { 'model.safetensors.index.json': '{"weight_map": {"a": "../a.safetensors"}}' },
      'does not stay inside',
    ],
    [
      'an index of what is not there',
      { 'model.safetensors.index.json': '{"weight_map": {"a": "a.safetensors"}}' },
      'The index of org/tiny names the file "a.safetensors", which the repository does not have',
    ],
    [
      'a configuration of megabytes',
      { 'config.json': Buffer.alloc(65 * 2 ** 20), 'model.safetensors': 'x' },
      'config.json of org/tiny has 68157440 bytes, at most',
    ],
  ])('%s', async (_, contents: HubContents, message) => {
    // prettier-ignore
    world.hub.add('org/tiny', contents);
    expect(await failing()).toMatchObject({
      code: 'checkpoint',
      message: expect.stringContaining(message) as string,
    });
    expect(fileRequests().filter((path) => !path.includes('index.json'))).toEqual([]);
  });

  it.each([
    '../../x.safetensors',
    '/etc/x.safetensors',
    'a/../../x',
    'a//b',
    '..',
    'C:\\x',
    'a\\..\\b',
    'a\nb',
  ])('the file name %j', async (path) => {
    world.hub.add('org/tiny', { ...singleFile, [path]: 'x' });
    expect(await failing()).toMatchObject({
      code: 'network',
      message: expect.stringContaining(`lists the file ${JSON.stringify(path)} for org/tiny, which does not stay inside`) as string, // prettier-ignore
    });
    expect([fileRequests(), readdirSync(world.home)]).toEqual([[], []]);
  });

  it.each([
    ['no JSON', 'answered for org/tiny with no JSON', '<html>'],
    ['a commit that is a path', 'other JSON than the API has', JSON.stringify({ sha: '../../../x' })],
    ['JSON without end', 'with no JSON', '['.repeat(1000)],
    ['a million files that are none', 'other JSON than the API has', `[${'{},'.repeat(1_000_000)}{}]`],
    ['100,000 lists of faults', 'other JSON than the API has', `[${'[],'.repeat(100_000)}[]]`],
    ['more than is read', 'more than 16777216 bytes', ' '.repeat(16 * 2 ** 20 + 1)],
  ])('%s in place of the API', async (_, message, text) => {
    world.hub.disturb((seen, response) => { response.end(text); return seen.path.includes('/revision/'); }); // prettier-ignore
    expect(await failing()).toMatchObject({
      code: 'network',
      message: expect.stringContaining(message) as string,
    });
  });

  it.each(['../../../../x', 'A'.repeat(64), 'abc'])('a hash that is %s', async (hash) => {
    world.hub.add('org/tiny', singleFile);
    world.hub.disturb((seen, response) => {
      if (!seen.path.includes('/tree/')) return false;
      response.end(JSON.stringify([{ type: 'file', path: 'model.safetensors', size: 1, oid: hash }]));
      return true;
    });
    expect(await failing()).toMatchObject({
      message: expect.stringContaining('other JSON than the API has') as string,
    });
  });

  it('a file with other bytes: nothing of it stays', async () => {
    world.hub.add('org/tiny', singleFile);
    world.hub.disturb((seen, response) => {
      if (seen.host !== 'storage') return false;
      sendFile(seen, response, Buffer.alloc(weights.byteLength, 'other '));
      return true;
    });
    expect(await failing()).toMatchObject({
      code: 'network',
      message: expect.stringMatching(/^model\.safetensors from .* has the hash [0-9a-f]{64}; .* was expected; nothing of it is kept\.$/) as string, // prettier-ignore
    });
    expect(blobs()).toHaveLength(2);
    world.hub.disturb((seen, response) => {
      if (!seen.path.endsWith('/config.json')) return false;
      response.end('{"a": 2}');
      return true;
    });
    rmSync(world.repositoryFolder(), { recursive: true });
    expect(await failing()).toMatchObject({ message: expect.stringMatching(/^config\.json .* has the hash [0-9a-f]{40};/) as string }); // prettier-ignore
  });

  it('a file that is longer than announced', async () => {
    world.hub.add('org/tiny', singleFile);
    world.hub.disturb((seen, response) => {
      if (seen.host !== 'storage') return false;
      response.end(Buffer.concat([weights, Buffer.from('more')]));
      return true;
    });
    expect(await failing()).toMatchObject({
      message: expect.stringContaining('is not the 100000 bytes') as string,
    });
    expect(blobs()).toHaveLength(2);
    expect(world.pauses).toEqual([]);
  });
});

describe('the token', () => {
  it('is sent to the hub, and never to where it redirects', async () => {
    world.hub.add('org/tiny', singleFile, { isGated: true });
    world.environment.HF_TOKEN = 'hf_right';
    await download('org/tiny');
    const seen = (host: string) =>
      new Set(
        world.hub.requests
          .filter((request) => request.host === host)
          .map(({ authorization }) => authorization),
      );
    expect(seen('hub')).toEqual(new Set(['Bearer hf_right']));
    expect(seen('storage')).toEqual(new Set([undefined]));
  });

  it('stays with a model that was renamed', async () => {
    world.hub.add('org/new', singleFile, { isGated: true });
    world.environment.HF_TOKEN = 'hf_right';
    world.hub.disturb((seen, response) => {
      if (!seen.path.includes('/tiny/')) return false;
      response.writeHead(307, { location: seen.path.replace('/tiny/', '/new/') }).end();
      return true;
    });
    await expect(download('org/tiny')).resolves.toContain('models--org--tiny');
  });

  it.each([
    ['a circle', (path: string) => path, 'redirects more than 8 times'],
    ['a file', () => 'file:///etc/passwd', 'redirects to an address that is not followed'],
    ['an address with a password', () => 'http://a:b@127.0.0.1/', 'is not followed'],
    ['nothing', () => undefined, 'redirects to an address'],
  ])('does not follow a redirect to %s', async (_, locate, message) => {
    world.hub.disturb((seen, response) => {
      const location = locate(seen.path);
      response.writeHead(302, location === undefined ? {} : { location }).end();
      return true;
    });
    await expect(download('org/tiny')).rejects.toThrow(message);
  });
});
