/** The generators write the structures of files that once crashed or hung a command, within a bounded number of seeds. */
import { describe, expect, it } from 'vitest';
import type { Random } from '../../src/core/random.js';
import { createRandom } from '../../src/core/random.js';
import { writeTemplate } from './kinds/template-program.js';
import type { Json } from './tokenizer-parts.js';
import { writeTokenizer } from './tokenizer-parts.js';

const seeds = 1000;

/** A part of a tokenizer, or all parts of a sequence. */
function listParts(slot: unknown): readonly Json[] {
  if (typeof slot !== 'object' || slot === null) return [];
  const { normalizers, pretokenizers, processors } = slot as Record<string, readonly Json[] | undefined>;
  return normalizers ?? pretokenizers ?? processors ?? [slot as Json];
}

function countMatches<File>(kind: string, write: (random: Random) => File, matches: (file: File) => boolean) {
  return Array.from({ length: seeds }, (_, seed) => write(createRandom(seed + 1, kind))).filter(matches)
    .length;
}

describe('tokenizer-structure writes', () => {
  const count = (matches: (file: Json) => boolean): number =>
    countMatches('tokenizer-structure', (random) => writeTokenizer(random, {}), matches);

  it('templates with a second text where there is only one', () => {
    const hasSecond = ({ single }: Json): boolean => JSON.stringify(single ?? []).includes('"id":"B"');
    expect(count(({ post_processor: slot }) => listParts(slot).some(hasSecond))).toBeGreaterThan(10);
  });

  it('splits that repeat an optional piece many times', () => {
    const stepsBack = ({ pattern }: Json): boolean =>
      /(.+[?*])\1{19,}/.test((pattern as { Regex?: string } | undefined)?.Regex ?? '');
    expect(count(({ pre_tokenizer: slot }) => listParts(slot).some(stepsBack))).toBeGreaterThan(10);
  });

  it('an empty prefix before a byte level that adds a space', () => {
    const isEmpty = ({ type, prepend }: Json): boolean => type === 'Prepend' && prepend === '';
    const addsSpace = ({ type, add_prefix_space: adds }: Json): boolean =>
      type === 'ByteLevel' && adds === true;
    const isFound = ({ normalizer, pre_tokenizer: splitter }: Json): boolean =>
      listParts(normalizer).some(isEmpty) && listParts(splitter).some(addsSpace);
    expect(count(isFound)).toBeGreaterThan(5);
  });

  it('vocabularies with one huge id', () => {
    const isHuge = ({ model }: Json): boolean => {
      const { vocab = {} } = (model ?? {}) as { vocab?: Record<string, number> };
      return Object.values(vocab).some((id) => id > 2 ** 31);
    };
    expect(count(isHuge)).toBeGreaterThan(10);
  });
});

describe('template-program writes', () => {
  it('lists that double many times and are printed', () => {
    const doubles =
      /range\((?:24|60|5000)\) %\}\{% set n\.l = \[n\.l, n\.l\] %\}.*\{\{ n\.l( ~ [^}]*)? \}\}/s;
    expect(countMatches('template-program', writeTemplate, (source) => doubles.test(source))).toBeGreaterThan(
      20,
    );
  });
});
