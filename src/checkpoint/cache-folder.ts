import { readdir, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

export interface Surroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  readonly home: string;
}

/** $MISTLETOE_CACHE, else the platform's place for caches. */
export function defaultCacheFolder(
  { environment, platform, home }: Surroundings = {
    environment: process.env,
    platform: process.platform,
    home: homedir(),
  },
): string {
  const own = environment.MISTLETOE_CACHE;
  if (own !== undefined && own !== '') return own;
  const shared = environment.XDG_CACHE_HOME;
  if (shared !== undefined && isAbsolute(shared)) return join(shared, 'mistletoe'); // the standard says: ignore relative ones
  if (platform === 'win32') {
    return join(environment.LOCALAPPDATA ?? join(home, 'AppData', 'Local'), 'mistletoe', 'cache');
  }
  return platform === 'darwin'
    ? join(home, 'Library', 'Caches', 'mistletoe')
    : join(home, '.cache', 'mistletoe');
}

const temporaryName = /^[0-9a-f]{32,64}(?:\.hash\.json)?\.\d+\.[0-9a-f]{16}\.tmp$/;
const abandonedAfterMs = 60 * 60 * 1000;

/** What killed processes left behind. A living writer touches its file all the time, so an hour of rest means death. */
export async function removeAbandonedFiles(folder: string, nowMs: number = Date.now()): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!temporaryName.test(name)) continue;
    const path = join(folder, name);
    const status = await stat(path).catch(() => undefined);
    if (status !== undefined && nowMs - status.mtimeMs > abandonedAfterMs) {
      await rm(path, { force: true }).catch(() => undefined);
    }
  }
}
