/** Which weights exactly: name, size and content hash of a model folder. */
import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { defaultCacheFolder } from '../checkpoint/cache-folder.js';
import { hashFile } from '../checkpoint/content-hash.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import type { ModelIdentity } from './result.js';

export async function identifyModel(
  folder: string,
  cacheFolder = defaultCacheFolder(),
): Promise<ModelIdentity> {
  mkdirSync(cacheFolder, { recursive: true });
  const { files, tensors } = await openCheckpoint(folder);
  const hash = createHash('sha256');
  for (const file of files) hash.update(await hashFile(file, cacheFolder));
  let parameterCount = 0;
  for (const { shape } of tensors.values())
    parameterCount += shape.reduce((product, size) => product * size, 1);
  return { name: basename(resolve(folder)), parameterCount, sha256: hash.digest('hex') };
}
