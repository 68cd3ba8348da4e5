/**
 * Tokens that a folder lists beside tokenizer.json, put into it as transformers does: a token of the vocabulary becomes
 * one that is matched whole, a new one takes the next free id. The id that the folder says must be the id that it gets.
 */
import { MistletoeError } from '../core/errors.js';
import type { ListedToken, TokenizerConfig } from './tokenizer-config.js';
import { specialTokenNames } from './tokenizer-config.js';

/** An entry of tokenizer.json's own list. */
export interface AddedToken extends Omit<ListedToken, 'file'> {
  readonly id: number;
}

export interface KnownTokens {
  /** Of the model alone. */
  readonly vocabulary: ReadonlyMap<string, number>;
  /** The added tokens of tokenizer.json, with the ids that they have. */
  readonly added: ReadonlyMap<string, number>;
}

/** What is missing among the added tokens of tokenizer.json, in the order of their ids. */
export function listMissingTokens(known: KnownTokens, config: TokenizerConfig, folder: string): AddedToken[] {
  const { vocabulary, added } = known;
  const pieces = new Map([...vocabulary, ...added].map(([content, id]) => [id, content]));
  const missing: AddedToken[] = [];
  let next = vocabulary.size;
  for (const id of added.values()) next = Math.max(next, id + 1);
  for (const [id, { file, ...token }] of [...config.addedTokens].sort(([left], [right]) => left - right)) {
    const found = added.get(token.content) ?? vocabulary.get(token.content);
    if (found !== undefined && found !== id) throw disagreement(folder, file, token, id, `gives it ${found}`);
    if (found === undefined && id !== next) {
      const there = pieces.get(id);
      const why =
        there === undefined
          ? `does not have it, and the next free id is ${next}`
          : `has ${JSON.stringify(there)} there`;
      throw disagreement(folder, file, token, id, why);
    }
    if (found === undefined) next += 1;
    if (!added.has(token.content)) missing.push({ id, ...token });
  }
  const listed = new Set(missing.map(({ content }) => content));
  for (const content of specialTokenNames.map((name) => config.specialTokens[name])) {
    const id = content === undefined ? undefined : vocabulary.get(content);
    if (content === undefined || id === undefined || added.has(content) || listed.has(content)) continue;
    listed.add(content);
    const flags = { special: true, normalized: false, lstrip: false, rstrip: false, single_word: false };
    missing.push({ id, content, ...flags });
  }
  return missing;
}

function disagreement(
  folder: string,
  file: string,
  { content }: Pick<ListedToken, 'content'>,
  id: number,
  why: string,
): MistletoeError {
  return new MistletoeError(
    'text',
    `${file} of ${folder} gives the added token ${JSON.stringify(content)} the id ${id}, but the tokenizer ${why}.`,
    { hint: 'The two files belong to different tokenizers; take both from the same model.' },
  );
}
