/** model.safetensors.index.json: names of files that a stranger chose. Nothing outside of the folder is opened. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openCheckpoint } from '../../../src/checkpoint/open-checkpoint.js';
import { writeSafetensors } from '../../support/checkpoint/write-safetensors.js';
import { createRandom } from '../../../src/core/random.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';
import { sampleTensors } from '../sample-tensors.js';

const elsewhere: readonly string[] = [
  ...[
    '../outside.safetensors',
    './model-00000.safetensors',
    'a/../../outside.safetensors',
    '/outside.safetensors',
  ],
  ...[
    '..\\outside.safetensors',
    'C:outside.safetensors',
    '%2e%2e/outside.safetensors',
    'model-00000.safetensors\0',
  ],
  ...[
    'model-00001.safetensors',
    'config.json',
    'absent.safetensors',
    '',
    '.safetensors',
    '\u001b[2J.safetensors',
  ],
];

export const shardIndex: FuzzKind = {
  name: 'index',
  boundedRuns: 500,
  open(folder) {
    const root = join(folder, 'model');
    mkdirSync(root);
    const weightMap: Record<string, string> = {};
    for (const shard of [0, 1]) {
      const file = `model-0000${shard}.safetensors`;
      const tensors = pickShard(shard);
      writeSafetensors(join(root, file), tensors);
      for (const name of Object.keys(tensors)) weightMap[name] = file;
    }
    // A file that an index must not reach.
    writeSafetensors(join(folder, 'outside.safetensors'), sampleTensors);
    const index = { metadata: { total_size: 90 }, weight_map: weightMap };
    return async (seed) => {
      const random = createRandom(seed, 'index');
      const led = { ...index, weight_map: { ...weightMap, ids: pick(random, elsewhere) } };
      const contents = [
        mutateBytes(Buffer.from(JSON.stringify(index)), random),
        JSON.stringify(led),
        mutateJson(index, random),
      ][random.nextInteger(3)]!;
      writeFileSync(join(root, 'model.safetensors.index.json'), contents);
      const { files, tensors } = await openCheckpoint(root);
      for (const file of files) ensure(dirname(file) === root, `${file} lies outside of the folder`);
      ensure(tensors.size === Object.keys(sampleTensors).length, `${tensors.size} tensors were found`);
    };
  },
};

function pickShard(shard: number): typeof sampleTensors {
  return Object.fromEntries(Object.entries(sampleTensors).filter((_, index) => index % 2 === shard));
}
