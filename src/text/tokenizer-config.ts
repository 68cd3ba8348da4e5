import { join } from 'node:path';
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { parseJson, readTextFile } from './text-file.js';

export const specialTokenNames = ['bos_token', 'eos_token', 'unk_token', 'pad_token'] as const;
export type SpecialTokenName = (typeof specialTokenNames)[number];

export interface TokenizerConfig {
  readonly specialTokens: Readonly<Partial<Record<SpecialTokenName, string>>>;
  readonly chatTemplate: string | readonly NamedTemplate[] | undefined;
  /** What the Llama tokenizer classes put around a text, where the file says so; other classes ignore the flags. */
  readonly llamaWrap: { readonly bos: boolean | undefined; readonly eos: boolean | undefined };
  /** Added tokens by id, as the configuration repeats them from tokenizer.json. */
  readonly addedTokens: ReadonlyMap<number, string>;
}

export interface NamedTemplate {
  readonly name: string;
  readonly template: string;
}

const tokenSchema = z.union([
  z.string(),
  z.object({ content: z.string() }).transform((token) => token.content),
]);
const schema = z.object({
  bos_token: tokenSchema.nullish(),
  eos_token: tokenSchema.nullish(),
  unk_token: tokenSchema.nullish(),
  pad_token: tokenSchema.nullish(),
  tokenizer_class: z.string().nullish(),
  add_bos_token: z.boolean().nullish(),
  add_eos_token: z.boolean().nullish(),
  chat_template: z
    .union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))])
    .nullish(),
  added_tokens_decoder: z.record(z.string(), z.object({ content: z.string() })).nullish(),
});

/** Reads tokenizer_config.json; a folder without one has no special tokens and no template of its own. */
export async function readTokenizerConfig(folder: string): Promise<TokenizerConfig> {
  const path = join(folder, 'tokenizer_config.json');
  const text = await readTextFile(path);
  const parsed = schema.safeParse(text === undefined ? {} : parseJson(text, path));
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new MistletoeError(
      'text',
      `${path}: ${issue?.path.join('.') ?? 'the file'} is not as expected (${issue?.message ?? 'invalid'}).`,
      { hint: 'Take tokenizer_config.json as the model’s authors published it.', cause: parsed.error },
    );
  }
  const config = parsed.data;
  const specialTokens: Partial<Record<SpecialTokenName, string>> = {};
  for (const name of specialTokenNames) {
    const token = config[name];
    if (typeof token === 'string') specialTokens[name] = token;
  }
  const isLlamaClass = /^(Code)?LlamaTokenizer(Fast)?$/.test(config.tokenizer_class ?? '');
  return {
    specialTokens,
    chatTemplate: config.chat_template ?? undefined,
    llamaWrap: {
      bos: isLlamaClass ? (config.add_bos_token ?? undefined) : undefined,
      eos: isLlamaClass ? (config.add_eos_token ?? undefined) : undefined,
    },
    addedTokens: new Map(
      Object.entries(config.added_tokens_decoder ?? {}).map(([id, token]) => [Number(id), token.content]),
    ),
  };
}
