/** A prompt set in the cache of the hub, as if it had been downloaded. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const commit = '0123456789abcdef0123456789abcdef01234567';

/** GSM8K of these bytes. */
export function writeCachedSet(cacheFolder: string, bytes: Uint8Array): void {
  const repository = join(cacheFolder, 'datasets--openai--gsm8k');
  const files = {
    'refs/main': commit,
    [`snapshots/${commit}/main/test-00000-of-00001.parquet`]: bytes,
  };
  for (const [name, contents] of Object.entries(files)) {
    const path = join(repository, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, contents);
  }
}
