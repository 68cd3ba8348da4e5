/** The folder for files that Mistletoe can make again. */
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

export interface HostEnvironment {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  readonly home: string;
}

/** $MISTLETOE_CACHE, else the platform's cache folder. */
export function defaultCacheFolder(
  { environment, platform, home }: HostEnvironment = {
    environment: process.env,
    platform: process.platform,
    home: homedir(),
  },
): string {
  const own = environment.MISTLETOE_CACHE;
  if (own !== undefined && own !== '') return own;
  const shared = environment.XDG_CACHE_HOME;
  if (shared !== undefined && isAbsolute(shared)) return join(shared, 'mistletoe'); // the XDG standard ignores relative paths
  if (platform === 'win32') {
    return join(environment.LOCALAPPDATA ?? join(home, 'AppData', 'Local'), 'mistletoe', 'cache');
  }
  return platform === 'darwin'
    ? join(home, 'Library', 'Caches', 'mistletoe')
    : join(home, '.cache', 'mistletoe');
}

/** Compiled kernels have their own folder and names. */
export const kernelsFolder = 'kernels';
export const kernelFileName = /^[0-9a-f]{64}\.cubin$/;
