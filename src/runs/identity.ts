/** The identity of a model: name, size and one hash over the files that determine its output. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import * as z from '../core/schema.js';
import { withFile } from '../checkpoint/binary-file.js';
import { makeFolder } from '../core/durable-files.js';
import { defaultCacheFolder } from '../core/files.js';
import { hashBeginning, hashFile } from '../checkpoint/cache/content-hash.js';
import { nameModel } from '../checkpoint/hub/hub-settings.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { sum } from '../core/vector.js';
import { joinSources, splitSource } from '../draft/joined/sources.js';
import { findWeightless } from '../draft/systems.js';

export const identitySchema = z.object({ name: z.string(), parameterCount: z.number(), sha256: z.string() });
export type ModelIdentity = Readonly<z.infer<typeof identitySchema>>;

export { readVersion } from '../core/package-files.js';

/** Beside the weights: each of these changes what is computed, or the text that it is computed from. */
const describingFiles = [
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer.model',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
];

export async function identifyModel(
  folder: string,
  cacheFolder = defaultCacheFolder(),
): Promise<ModelIdentity> {
  const parts = splitSource(folder);
  if (parts.length > 1) {
    const models = await Promise.all(parts.map((part) => identifyModel(part, cacheFolder)));
    const hash = createHash('sha256').update(joinSources(models.map(({ sha256 }) => sha256)));
    return {
      name: joinSources(models.map(({ name }) => name)),
      parameterCount: sum(models.map(({ parameterCount }) => parameterCount)),
      sha256: hash.digest('hex'),
    };
  }
  // A system without weights is what its name says.
  if (findWeightless(folder) !== undefined)
    return { name: folder, parameterCount: 0, sha256: createHash('sha256').update(folder).digest('hex') };
  // Without a cache, for example with a read-only HOME, the weights are hashed every time.
  await makeFolder(cacheFolder).catch(() => undefined);
  const root = resolve(folder);
  const { files, tensors } = await openCheckpoint(root);
  const hash = createHash('sha256');
  const add = (path: string, sha256: string): void => {
    hash.update(`${JSON.stringify(relative(root, path))} ${sha256}\n`);
  };
  for (const file of files) add(file, await hashFile(file, cacheFolder));
  for (const path of describingFiles.map((name) => join(root, name)).filter((path) => existsSync(path)))
    // Read each time: remembering the hash by the file's times would save nothing here.
    add(path, await withFile(path, (file) => hashBeginning(file, file.sizeBytes)));
  let parameterCount = 0;
  for (const { shape } of tensors.values())
    parameterCount += shape.reduce((product, size) => product * size, 1);
  return { name: nameModel(root), parameterCount, sha256: hash.digest('hex') };
}
