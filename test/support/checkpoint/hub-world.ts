/** For each test a cache of its own; for all of a file one hub on loopback. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { FakeHub, HubContents } from '../hub-server.js';
import { startHub } from '../hub-server.js';
import {
  findCachedModel,
  type HubSettings,
  parseHubId,
  readHubSettings,
} from '../../../src/checkpoint/hub/hub-settings.js';
import type { DownloadOptions } from '../../../src/checkpoint/hub/hub-download.js';
import { downloadModel } from '../../../src/checkpoint/hub/hub-download.js';
import { makeTemporaryFolder } from './temporary-folder.js';

export const weights = Buffer.alloc(100_000, 'weights of some length ');
export const singleFile: HubContents = {
  'config.json': '{"a": 1}',
  'tokenizer.json': '{}',
  'model.safetensors': weights,
};

export interface HubWorld {
  hub: FakeHub;
  /** Of the test; the cache is the folder hub in it. */
  home: string;
  environment: Record<string, string>;
  /** Between attempts, in milliseconds; none of them is waited for. */
  readonly pauses: number[];
  readonly download: (text: string, options?: DownloadOptions) => Promise<string>;
  readonly findCached: (text: string) => Promise<string>;
  /** Of org/tiny. */
  readonly repositoryFolder: () => string;
  readonly blobs: () => string[];
  /** Addresses that were asked for bytes of files. */
  readonly fileRequests: () => string[];
  /** What was asked for of large files. */
  readonly ranges: () => (string | undefined)[];
}

/** To be called where hooks may be. */
export function createHubWorld(): HubWorld {
  const settings = (): HubSettings => readHubSettings({ environment: world.environment, home: world.home });
  const world: HubWorld = {
    hub: undefined as unknown as FakeHub, // before the first test
    home: '',
    environment: {},
    pauses: [],
    download: (text, options = {}) =>
      downloadModel(parseHubId(text)!, settings(), {
        pause: (milliseconds) => Promise.resolve(world.pauses.push(milliseconds)),
        ...options,
      }),
    findCached: (text) => findCachedModel(parseHubId(text)!, settings()),
    repositoryFolder: () => join(world.home, 'hub/models--org--tiny'),
    blobs: () => {
      const folder = join(world.repositoryFolder(), 'blobs');
      return existsSync(folder) ? readdirSync(folder).sort() : [];
    },
    fileRequests: () =>
      world.hub.requests
        .filter(({ path }) => path.includes('/resolve/'))
        .map(({ host, path }) => `${host} ${path}`),
    ranges: () => world.hub.requests.filter(({ host }) => host === 'storage').map(({ range }) => range),
  };
  let remove: () => void;
  beforeAll(async () => {
    world.hub = await startHub();
  });
  afterAll(() => world.hub.close());
  beforeEach(() => {
    const temporary = makeTemporaryFolder();
    world.home = temporary.path;
    remove = temporary.remove;
    world.environment = { HF_HUB_CACHE: join(world.home, 'hub'), HF_ENDPOINT: world.hub.endpoint };
    world.pauses.length = 0;
    world.hub.requests.length = 0;
    world.hub.disturb(undefined);
  });
  afterEach(() => {
    remove();
  });
  return world;
}
