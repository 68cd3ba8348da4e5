/** Prompt sets of the hub in Parquet files. What is accepted has a question and an answer in every row. */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createRandom } from '../../../src/core/random.js';
import { readHubSettings } from '../../../src/checkpoint/hub/hub-settings.js';
import { parseJsonText } from '../../../src/core/json-text.js';
import { findPromptSet } from '../../../src/text/prompts/hub-sets.js';
import { writeCachedSet } from '../../support/text/cached-set.js';
import {
  dataPage,
  dataPageV2,
  dictionaryPage,
  joinParquet,
  packRepeated,
  plainTexts,
  run,
  uint32,
} from '../../support/write-parquet.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

const texts = plainTexts(['2 + 2?', '3 + 3?', 'Grüße']);
const answer = { name: 'answer', pages: dataPage(plainTexts(['4', '6', '']), 3) };
const withQuestions = (pages: Buffer, more: object = {}): Buffer =>
  joinParquet([{ name: 'question', pages, ...more }, answer], 3);

const files: readonly Buffer[] = [
  withQuestions(dataPage(texts, 3)),
  withQuestions(dataPageV2(Buffer.alloc(0), texts, 3)),
  withQuestions(
    Buffer.concat([
      dictionaryPage(texts, 3),
      dataPage(Buffer.concat([Buffer.from([2]), run(2, 1), run(1, 2)]), 3, { encoding: 8 }),
    ]),
    { hasDictionary: true },
  ),
  withQuestions(dataPage(Buffer.concat([uint32(2), run(3, 1), texts]), 3), { isOptional: true }),
  withQuestions(dataPage(packRepeated(300), 3, { unpacked: 300 }), { codec: 1 }),
];

export const parquet: FuzzKind = {
  name: 'parquet',
  boundedRuns: 600,
  open(folder) {
    return async (seed) => {
      const random = createRandom(seed, 'parquet');
      const home = join(folder, 'hub');
      const settings = readHubSettings({ environment: { HF_HUB_CACHE: home }, home: folder });
      rmSync(home, { recursive: true, force: true });
      writeCachedSet(home, mutateBytes(pick(random, files), random));
      const cacheFolder = join(folder, 'cache');
      const path = await findPromptSet('gsm8k', { settings, download: false, cacheFolder });
      ensure(path !== undefined, 'it is not in the cache');
      for (const line of readFileSync(path, 'utf8').split('\n').slice(0, -1)) {
        const { turns, reference } = parseJsonText(line) as Record<string, unknown>;
        const [text] = turns as unknown[];
        ensure(typeof text === 'string' && Array.isArray(reference), `the row ${line}`);
      }
    };
  },
};
