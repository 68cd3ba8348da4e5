/** The tokenizer of a folder as the metadata of a GGUF file, as llama.cpp's converter writes it. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GgufMetadata } from './encode-gguf.js';
import { text, uint32 } from './write-gguf.js';

interface TokenizerJson {
  readonly added_tokens: readonly {
    readonly id: number;
    readonly content: string;
    readonly special: boolean;
  }[];
  readonly model: {
    readonly vocab: Readonly<Record<string, number>>;
    readonly merges: readonly (string | readonly [string, string])[];
  };
}

const types = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

export interface TokenizerOptions {
  /** `llama` makes scores of the merges' order; `gpt2` keeps the merges. */
  readonly kind: 'llama' | 'gpt2';
  /** tokenizer.ggml.pre */
  readonly split?: string;
  readonly ids?: Readonly<Partial<Record<'bos' | 'eos' | 'unknown' | 'padding', number>>>;
}

export function describeTokenizer(folder: string, { kind, split, ids = {} }: TokenizerOptions): GgufMetadata {
  const { added_tokens: added, model } = JSON.parse(
    readFileSync(join(folder, 'tokenizer.json'), 'utf8'),
  ) as TokenizerJson;
  const pieces = new Map(Object.entries(model.vocab).map(([piece, id]) => [id, piece]));
  for (const { id, content } of added) pieces.set(id, content);
  const size = Math.max(...pieces.keys()) + 1;
  const addedTypes = new Map(
    added.map(({ id, content, special }) => [
      id,
      content === '<unk>' ? types.unknown : special ? types.control : types.userDefined,
    ]),
  );
  const typeOf = (id: number): number => {
    const piece = pieces.get(id);
    if (piece === undefined) return types.unused;
    return (
      addedTypes.get(id) ?? (/^<0x[0-9A-F]{2}>$/.test(piece) && kind === 'llama' ? types.byte : types.normal)
    );
  };
  const merges = model.merges.map((merge) => (typeof merge === 'string' ? merge : merge.join(' ')));
  const ranks = new Map(merges.map((merge, rank) => [merge.replace(' ', ''), rank]));
  const every = <Value>(describe: (id: number) => Value): Value[] =>
    Array.from({ length: size }, (_, id) => describe(id));
  const template = join(folder, 'chat_template.jinja');
  return {
    'tokenizer.ggml.model': text(kind),
    ...(split === undefined ? {} : { 'tokenizer.ggml.pre': text(split) }),
    'tokenizer.ggml.tokens': { type: 'strings', value: every((id) => pieces.get(id) ?? `[PAD${id}]`) },
    'tokenizer.ggml.token_type': { type: 'int32s', value: every(typeOf) },
    ...(kind === 'llama'
      ? {
          'tokenizer.ggml.scores': {
            type: 'float32s',
            value: every((id) => -(ranks.get(pieces.get(id) ?? '') ?? 1e6 + id)),
          },
        }
      : { 'tokenizer.ggml.merges': { type: 'strings', value: merges } }),
    ...Object.fromEntries(
      Object.entries(ids).map(([name, id]) => [`tokenizer.ggml.${name}_token_id`, uint32(id)]),
    ),
    ...(existsSync(template) ? { 'tokenizer.chat_template': text(readFileSync(template, 'utf8')) } : {}),
  };
}
