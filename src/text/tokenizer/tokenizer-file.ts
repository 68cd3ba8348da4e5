/** The tokenizer of a folder as one tokenizer.json, made of all its files. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as z from '../../core/schema.js';
import { isGgufFile } from '../../checkpoint/gguf/open-gguf.js';
import { MistletoeError } from '../../core/errors.js';
import { countEntries } from '../../core/json-text.js';
import { fileLimits, maxVocabularySize } from '../../core/limits.js';
import { parseJson, readTextFile } from '../../core/files.js';
import { readGgufText, readGgufTokenizer } from './gguf-text.js';
import { readSentencePiece } from './sentencepiece-file.js';
import { convertHint, convertSentencePiece, literalFlags } from './sentencepiece.js';
import type { ListedToken, TokenizerConfig } from './tokenizer-config.js';
import { isLlamaClass, specialTokenNames } from './tokenizer-config.js';

const fileSchema = z.looseObject({
  added_tokens: z
    .array(z.looseObject({ id: z.int().nonnegative(), content: z.string(), special: z.boolean().optional() }))
    .default([]),
  // The vocabulary is read by hand: validating half a million entries takes seconds.
  model: z.looseObject({ type: z.string().optional(), vocab: z.unknown() }),
});

export interface TokenizerFile {
  /** The file that it was read from: tokenizer.json, tokenizer.model or a GGUF file. */
  readonly path: string;
  /** As the tokenizers library reads it. */
  readonly text: string;
  readonly contents: Readonly<Record<string, unknown>>;
  /** BPE, Unigram, WordPiece or WordLevel, if the file has it. */
  readonly kind: string | undefined;
  /** Pieces of the model and added tokens. */
  readonly ids: ReadonlyMap<string, number>;
  /** Of these, the added tokens. */
  readonly addedIds: ReadonlyMap<string, number>;
  readonly specialIds: ReadonlySet<number>;
}

export interface ReadOptions {
  /** The model's vocabulary size, if known: a tokenizer with many more tokens is refused before it is opened. */
  readonly modelVocabularySize?: number | undefined;
}

export async function readTokenizerFile(
  folder: string,
  config: TokenizerConfig,
  { modelVocabularySize }: ReadOptions = {},
): Promise<TokenizerFile> {
  const { path, text, contents } = await readContents(folder, config, modelVocabularySize);
  const parsed = fileSchema.safeParse(contents);
  const vocabulary = parsed.success ? readVocabulary(parsed.data.model.vocab) : undefined;
  if (!parsed.success || vocabulary === undefined) {
    throw new MistletoeError('text', `${path} has no vocabulary that can be read.`, {
      hint: 'The file may be truncated, or written by a newer version of the tokenizers library.',
      cause: parsed.error,
    });
  }
  const { model, added_tokens: own } = parsed.data;
  refuseCounts(path, vocabulary, own, modelVocabularySize);
  const added = new Map(own.map(({ content, id }) => [content, vocabulary.get(content) ?? id]));
  const missing = listMissingTokens(vocabulary, added, config, folder);
  const all = [...own, ...missing];
  const addedIds = new Map([...added, ...missing.map(({ content, id }) => [content, id] as const)]);
  const complete = missing.length === 0 ? parsed.data : { ...contents, added_tokens: all };
  return {
    path,
    text: missing.length === 0 && text !== undefined ? text : JSON.stringify(complete),
    contents: complete,
    kind: model.type,
    ids: new Map([...vocabulary, ...addedIds]),
    addedIds,
    specialIds: new Set(
      all.filter(({ special }) => special === true).map(({ content }) => addedIds.get(content)!),
    ),
  };
}

/** Pieces with their ids; undefined if this is not a vocabulary. */
function readVocabulary(vocab: unknown): Map<string, number> | undefined {
  const pieces = new Map<string, number>();
  if (Array.isArray(vocab)) {
    for (const [id, entry] of vocab.entries()) {
      const piece: unknown = Array.isArray(entry) ? entry[0] : undefined;
      if (typeof piece !== 'string') return undefined;
      pieces.set(piece, id);
    }
    return pieces;
  }
  if (typeof vocab !== 'object' || vocab === null) return undefined;
  for (const [piece, id] of Object.entries(vocab)) {
    if (!Number.isSafeInteger(id) || (id as number) < 0) return undefined;
    pieces.set(piece, id as number);
  }
  return pieces;
}

/** Some tokenizers have a few more tokens than their model has rows, and gaps between their ids. */
function maxTokensFor(modelVocabularySize: number | undefined): number {
  return modelVocabularySize === undefined ? maxVocabularySize : 2 * modelVocabularySize + 10_000;
}

/** Ids are indexes: one huge id would make every list and loop over ids as long. */
function refuseCounts(
  path: string,
  vocabulary: ReadonlyMap<string, number>,
  added: readonly { readonly id: number }[],
  modelVocabularySize: number | undefined,
): void {
  const max = maxTokensFor(modelVocabularySize);
  const count = vocabulary.size + added.length;
  if (count > max) throw misfit(path, `has ${count} tokens`, modelVocabularySize);
  for (const id of [...vocabulary.values(), ...added.map((token) => token.id)])
    if (id >= max) throw misfit(path, `has the token id ${id} with ${count} tokens`, modelVocabularySize);
}

function misfit(path: string, what: string, modelVocabularySize: number | undefined): MistletoeError {
  return modelVocabularySize === undefined
    ? new MistletoeError('text', `${path} ${what}; at most ${maxVocabularySize} tokens are supported.`, {
        hint: 'Use the tokenizer as the model’s authors published it.',
      })
    : new MistletoeError('text', `${path} ${what}, but the model has ${modelVocabularySize} tokens.`, {
        hint: 'Take the tokenizer and the weights from the same model.',
      });
}

export async function hasTokenizer(folder: string): Promise<boolean> {
  if (isGgufFile(folder)) return (await readGgufText(folder)) !== undefined;
  return ['tokenizer.json', 'tokenizer.model'].some((name) => existsSync(join(folder, name)));
}

/** Max JSON entries per token: itself, its merges, and the settings of an added token. */
const maxEntriesPerToken = 4;

async function readContents(
  folder: string,
  config: TokenizerConfig,
  modelVocabularySize: number | undefined,
): Promise<{ readonly path: string; readonly text?: string; readonly contents: object }> {
  if (isGgufFile(folder)) return { path: folder, contents: await readGgufTokenizer(folder) };
  const path = join(folder, 'tokenizer.json');
  const text = await readTextFile(path, fileLimits.tokenizer);
  if (text !== undefined) {
    // Counting takes a fraction of a second; parsing and opening such a file takes a minute and gigabytes.
    const max = maxEntriesPerToken * maxTokensFor(modelVocabularySize);
    if (text.length > max && countEntries(text) > max)
      throw misfit(path, `has more than ${max} entries`, modelVocabularySize);
    return { path, text, contents: parseJson(text, path) as object };
  }
  const modelPath = join(folder, 'tokenizer.model');
  const model = await readSentencePiece(modelPath);
  if (model === undefined) {
    throw new MistletoeError(
      'text',
      `${path} does not exist, and neither does a tokenizer.model beside it.`,
      { hint: 'Point to a Hugging Face model folder that has one of them.' },
    );
  }
  if (!isLlamaClass(config)) {
    throw new MistletoeError(
      'text',
      `${modelPath} belongs to a ${config.tokenizerClass ?? ''}; only that of a LlamaTokenizer is read without a tokenizer.json.`,
      { hint: convertHint },
    );
  }
  return { path: modelPath, contents: convertSentencePiece(model, modelPath, config.sentencePiece) };
}

/** An entry of tokenizer.json's own list. */
interface AddedToken extends Omit<ListedToken, 'file'> {
  readonly id: number;
}

/**
 * Tokens that only other files of the folder list, by id. As in transformers, a token of the vocabulary becomes one that
 * is matched as a whole, and a new one gets the next free id. The listed id must be the one that it gets.
 */
function listMissingTokens(
  vocabulary: ReadonlyMap<string, number>,
  added: ReadonlyMap<string, number>, // of tokenizer.json, with the ids that they have
  config: TokenizerConfig,
  folder: string,
): AddedToken[] {
  const pieces = new Map([...vocabulary, ...added].map(([content, id]) => [id, content]));
  const missing: AddedToken[] = [];
  let next = vocabulary.size;
  for (const id of added.values()) next = Math.max(next, id + 1);
  for (const [id, { file, ...token }] of [...config.addedTokens].sort(([left], [right]) => left - right)) {
    const found = added.get(token.content) ?? vocabulary.get(token.content);
    if ((found ?? next) !== id) {
      const there = pieces.get(id);
      let why = `does not have it, and the next free id is ${next}`;
      if (there !== undefined) why = `has ${JSON.stringify(there)} there`;
      if (found !== undefined) why = `gives it ${found}`;
      throw new MistletoeError(
        'text',
        `${file} of ${folder} gives the added token ${JSON.stringify(token.content)} the id ${id}, but the tokenizer ${why}.`,
        { hint: 'The two files belong to different tokenizers; take both from the same model.' },
      );
    }
    if (found === undefined) next += 1;
    if (!added.has(token.content)) missing.push({ id, ...token });
  }
  const listed = new Set([...added.keys(), ...missing.map(({ content }) => content)]);
  for (const name of specialTokenNames) {
    const content = config.specialTokens[name];
    const id = content === undefined ? undefined : vocabulary.get(content);
    if (content === undefined || id === undefined || listed.has(content)) continue;
    listed.add(content);
    missing.push({ id, content, special: true, ...literalFlags });
  }
  return missing;
}
