/**
 * Whole tokenizers that are written, not damaged: parts that act together, patterns that step back, vocabularies with odd
 * ids. Native code must not panic in this process, and what is accepted encodes, decodes, and equals itself.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRandom } from '../../../src/core/random.js';
import { packageRoot } from '../../../src/core/package-files.js';
import { findVocabularyDifference, loadTokenizer } from '../../../src/text/tokenizer/tokenizer.js';
import { pick } from '../byte-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';
import type { Json } from '../tokenizer-parts.js';
import { writeTokenizer } from '../tokenizer-parts.js';

const texts = ['', 'abc', 'the quick brown fox', '😀 é\u0301 \u0000', `${' '.repeat(60)}b`];
/** Runs that patterns step back over. */
const runs = ['a'.repeat(60), `${'a'.repeat(40)}b`, 'ab'.repeat(22), 'aab '.repeat(30)];
const published = join(packageRoot, 'test/fixtures/chat');

export const tokenizerStructure: FuzzKind = {
  name: 'tokenizer-structure',
  boundedRuns: 40,
  open(folder) {
    const real = readdirSync(published)
      .map((name) => (JSON.parse(readFileSync(join(published, name), 'utf8')) as Json).tokenizer)
      .filter((file) => file !== undefined) as Json[];
    const model = join(folder, 'model');
    return async (seed) => {
      const random = createRandom(seed, 'tokenizer-structure');
      rmSync(model, { recursive: true, force: true });
      mkdirSync(model);
      const file = writeTokenizer(random, pick(random, real));
      writeFileSync(join(model, 'tokenizer.json'), JSON.stringify(file));
      const tokenizer = await loadTokenizer(model);
      for (const text of [...texts, pick(random, runs)]) {
        const ids = await tokenizer.encode(text);
        ensure(
          ids.every((id) => Number.isInteger(id) && id >= 0),
          `the ids ${ids.join()}`,
        );
        ensure(typeof tokenizer.decode(ids) === 'string', 'no text came back');
      }
      // As for a draft model with the tokenizer of its target.
      ensure(findVocabularyDifference(tokenizer, tokenizer) === undefined, 'it differs from itself');
    };
  },
};
