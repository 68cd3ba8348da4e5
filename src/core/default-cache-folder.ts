/** Where everything lies that Mistletoe keeps for later starts and could make anew. */
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

/** Compiled kernels lie in a folder of their own, under names of their own. */
export const kernelsFolder = 'kernels';
export const kernelFileName = /^[0-9a-f]{64}\.cubin$/;
