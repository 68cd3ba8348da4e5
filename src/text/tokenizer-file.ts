/** The tokenizer of a folder as one tokenizer.json, wherever its parts stand. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { fileLimits } from '../core/limits.js';
import { listMissingTokens } from './added-tokens.js';
import { readSentencePiece } from './sentencepiece-file.js';
import { convertSentencePiece } from './sentencepiece.js';
import { parseJson, readTextFile } from './text-file.js';
import { isLlamaClass, type TokenizerConfig } from './tokenizer-config.js';

const fileSchema = z.looseObject({
  added_tokens: z
    .array(z.looseObject({ id: z.int().nonnegative(), content: z.string(), special: z.boolean().optional() }))
    .default([]),
  model: z.looseObject({
    type: z.string().optional(),
    vocab: z.union([
      z.record(z.string(), z.int().nonnegative()),
      z.array(z.tuple([z.string()], z.unknown())),
    ]),
  }),
});

export interface TokenizerFile {
  /** The file that it was read from, tokenizer.json or tokenizer.model. */
  readonly path: string;
  /** As the tokenizers library reads it. */
  readonly text: string;
  readonly contents: Readonly<Record<string, unknown>>;
  /** BPE, Unigram, WordPiece or WordLevel, where the file says it. */
  readonly kind: string | undefined;
  /** Pieces of the model and added tokens. */
  readonly ids: ReadonlyMap<string, number>;
  /** Of these, the added tokens. */
  readonly addedIds: ReadonlyMap<string, number>;
  readonly specialIds: ReadonlySet<number>;
}

export async function readTokenizerFile(folder: string, config: TokenizerConfig): Promise<TokenizerFile> {
  const { path, text, contents } = await readContents(folder, config);
  const parsed = fileSchema.safeParse(contents);
  if (!parsed.success) {
    throw new MistletoeError('text', `${path} has no vocabulary that can be read.`, {
      hint: 'The file may be truncated, or written by a newer version of the tokenizers library.',
      cause: parsed.error,
    });
  }
  const { model, added_tokens: own } = parsed.data;
  const vocabulary = new Map(
    Array.isArray(model.vocab)
      ? model.vocab.map(([piece], id): [string, number] => [piece, id])
      : Object.entries(model.vocab),
  );
  const added = new Map(own.map(({ content, id }) => [content, vocabulary.get(content) ?? id]));
  const missing = listMissingTokens({ vocabulary, added }, config, folder);
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

/** Whether a folder brings a tokenizer along, in either form. */
export function hasTokenizer(folder: string): boolean {
  return ['tokenizer.json', 'tokenizer.model'].some((name) => existsSync(join(folder, name)));
}

interface Contents {
  readonly path: string;
  /** Absent where the contents were made, not read. */
  readonly text?: string;
  readonly contents: object;
}

async function readContents(folder: string, config: TokenizerConfig): Promise<Contents> {
  const path = join(folder, 'tokenizer.json');
  const text = await readTextFile(path, fileLimits.tokenizer);
  if (text !== undefined) return { path, text, contents: parseJson(text, path) as object };
  const modelPath = join(folder, 'tokenizer.model');
  const model = await readSentencePiece(modelPath);
  if (model === undefined) {
    throw new MistletoeError(
      'text',
      `${path} does not exist, and neither does a tokenizer.model beside it.`,
      {
        hint: 'Point to a Hugging Face model folder that has one of them.',
      },
    );
  }
  if (!isLlamaClass(config)) {
    throw new MistletoeError(
      'text',
      `${modelPath} belongs to a ${config.tokenizerClass ?? ''}; only that of a LlamaTokenizer is read without a tokenizer.json.`,
      {
        hint:
          'Convert it where transformers is installed: ' +
          `python -c "from transformers import AutoTokenizer; AutoTokenizer.from_pretrained('DIR').save_pretrained('DIR')".`,
      },
    );
  }
  return { path: modelPath, contents: convertSentencePiece(model, modelPath, config.sentencePiece) };
}
