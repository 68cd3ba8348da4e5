import { mkdirSync, readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hashOf } from '../../../test/support/hub-server.js';
import { hostTag } from '../../core/processes.js';
import { createHubWorld, singleFile, weights } from '../../../test/support/checkpoint/hub-world.js';

const world = createHubWorld();
const { download, findCached, blobs, ranges } = world;

describe('a download that is interrupted', () => {
  /** The first `times` requests for the weights end after 30,000 bytes. */
  const cutShort = (times: number, end: 'break' | 'truncate'): void => {
    let left = times;
    world.hub.disturb((seen, response, contents) => {
      if (seen.host !== 'storage' || left-- <= 0) return false;
      const first = Number(/\d+/.exec(seen.range ?? '0')![0]);
      const part = contents!.subarray(first, first + 30_000);
      response.statusCode = first === 0 ? 200 : 206;
      if (first > 0) response.setHeader('content-range', `bytes ${first}-99999/100000`);
      if (end === 'truncate') response.end(part);
      else {
        response.setHeader('content-length', contents!.byteLength - first);
        response.write(part, () => setImmediate(() => response.destroy()));
      }
      return true;
    });
  };

  it('goes on by itself', async () => {
    world.hub.add('org/tiny', singleFile);
    cutShort(2, 'truncate');
    const folder = await download('org/tiny');
    expect(readFileSync(join(folder, 'model.safetensors')).equals(weights)).toBe(true);
    expect(ranges()).toEqual([undefined, 'bytes=30000-', 'bytes=60000-']);
    expect(world.pauses).toEqual([1000, 1000]);
  });

  it('goes on by itself where the connection breaks, whatever has come by then', async () => {
    world.hub.add('org/tiny', singleFile);
    cutShort(1, 'break');
    const folder = await download('org/tiny');
    expect(readFileSync(join(folder, 'model.safetensors')).equals(weights)).toBe(true);
    expect(ranges().length).toBeGreaterThan(1);
  });

  it('goes on at the next command, from where it was', async () => {
    world.hub.add('org/tiny', singleFile);
    let isDown = false;
    world.hub.disturb((seen, response, contents) => {
      if (seen.host !== 'storage') return false;
      if (isDown) response.writeHead(503).end();
      else response.end(contents!.subarray(0, 40_000));
      isDown = true;
      return true;
    });
    await expect(download('org/tiny')).rejects.toMatchObject({
      code: 'network',
      message: expect.stringContaining('answered 503 for org/tiny') as string,
      hint: expect.stringContaining('run the same command to resume it') as string,
    });
    expect(world.pauses).toEqual([1000, 2000, 4000]);
    await expect(findCached('org/tiny')).rejects.toThrow('There is no folder org/tiny');
    expect(blobs().filter((name) => name.endsWith('.incomplete'))).toHaveLength(1);

    world.hub.disturb(undefined);
    world.hub.requests.length = 0;
    const done: number[] = [];
    await download('org/tiny', {
      measureRoom: () => Promise.resolve(60_000), // what is there already has its room
      onProgress: ({ doneBytes }) => done.push(doneBytes),
    });
    expect(ranges()).toEqual(['bytes=40000-']);
    expect(done[0]).toBe(40_000);
    expect(blobs()).toHaveLength(3);
    const folder = await findCached('org/tiny');
    expect(readFileSync(join(folder, 'model.safetensors')).equals(weights)).toBe(true);
  });

  /** Of a process that cannot be. */
  const nobody = 2 ** 22 + 1;
  const leaveRemains = (bytes: Uint8Array, pid = nobody, host = hostTag()): string => {
    const folder = join(world.repositoryFolder(), 'blobs');
    mkdirSync(folder, { recursive: true });
    const name = `${hashOf('model.safetensors', weights)}.${pid}.${host}.${'0'.repeat(16)}.incomplete`;
    writeFileSync(join(folder, name), bytes);
    return join(folder, name);
  };

  it.each([
    ['damaged', Buffer.alloc(5000, 'x'), ['bytes=5000-', undefined]],
    ['longer than the file', Buffer.alloc(200_000), [undefined]],
    ['whole', weights, []],
    ['whole and damaged', Buffer.alloc(100_000), [undefined]],
  ])('begins anew where what is left is wrong: %s', async (_, remains, expected) => {
    world.hub.add('org/tiny', singleFile);
    leaveRemains(remains);
    const folder = await download('org/tiny');
    expect(readFileSync(join(folder, 'model.safetensors')).equals(weights)).toBe(true);
    expect(ranges()).toEqual(expected);
    expect(blobs()).toHaveLength(3);
  });

  it.each([
    ['another process', process.ppid, hostTag()],
    ['another machine, which cannot be asked,', nobody, '0'.repeat(16)],
  ])('leaves what %s is writing, until it has been silent for long', async (_, pid, host) => {
    world.hub.add('org/tiny', singleFile);
    const theirs = leaveRemains(weights.subarray(0, 10), pid, host);
    await download('org/tiny');
    expect(ranges()).toEqual([undefined]);
    expect(readFileSync(theirs).equals(weights.subarray(0, 10))).toBe(true);

    rmSync(join(world.repositoryFolder(), 'blobs', hashOf('model.safetensors', weights)));
    utimesSync(theirs, new Date(), new Date(Date.now() - 16 * 60 * 1000));
    await download('org/tiny');
    expect(ranges()).toEqual([undefined, 'bytes=10-']);
    expect(blobs()).toHaveLength(3);
  });

  it('uses the largest of several remains and removes the others', async () => {
    world.hub.add('org/tiny', singleFile);
    leaveRemains(weights.subarray(0, 10));
    leaveRemains(weights.subarray(0, 20), nobody + 1);
    await download('org/tiny');
    expect(ranges()).toEqual(['bytes=20-']);
    expect(blobs()).toHaveLength(3);
  });

  it('is content where another process took the file over and finished it', async () => {
    world.hub.add('org/tiny', singleFile);
    world.hub.disturb(({ host }) => {
      const folder = join(world.repositoryFolder(), 'blobs');
      const own = blobs().find((name) => name.endsWith('.incomplete'));
      if (host === 'storage') {
        renameSync(join(folder, own!), join(folder, 'taken'));
        writeFileSync(join(folder, hashOf('model.safetensors', weights)), weights);
      }
      return false;
    });
    const folder = await download('org/tiny');
    await expect(findCached('org/tiny')).resolves.toBe(folder);
  });

  it('passes over what it has where the server knows no ranges', async () => {
    world.hub.add('org/tiny', singleFile);
    leaveRemains(weights.subarray(0, 40_000));
    world.hub.disturb((seen, response, contents) => {
      if (seen.host !== 'storage') return false;
      response.end(contents);
      return true;
    });
    const folder = await download('org/tiny');
    expect(readFileSync(join(folder, 'model.safetensors')).equals(weights)).toBe(true);
  });
});
