/**
 * tokenizer_config.json and, in older folders, special_tokens_map.json and added_tokens.json. The precedence is that of
 * transformers.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as z from '../../core/schema.js';
import { isGgufFile } from '../../checkpoint/gguf/open-gguf.js';
import { MistletoeError } from '../../core/errors.js';
import { fileLimits } from '../../core/limits.js';
import { parseJson, readTextFile } from '../../core/files.js';
import { readGgufText } from './gguf-text.js';

export const specialTokenNames = ['bos_token', 'eos_token', 'unk_token', 'pad_token'] as const;
export type SpecialTokenName = (typeof specialTokenNames)[number];

export interface TokenizerConfig {
  readonly specialTokens: Readonly<Partial<Record<SpecialTokenName, string>>>;
  /** Defaults of the Llama tokenizer classes that no file mentions. */
  readonly defaultNames: ReadonlySet<SpecialTokenName>;
  readonly tokenizerClass: string | undefined;
  readonly chatTemplate: string | readonly Readonly<Record<'name' | 'template', string>>[] | undefined;
  /** Flags of the Llama tokenizer classes for special tokens around a text; other classes ignore them. */
  readonly llamaWrap: { readonly bos: boolean | undefined; readonly eos: boolean | undefined };
  /** How a SentencePiece model is converted. The default of old files is `legacy`. */
  readonly sentencePiece: { readonly legacy: boolean; readonly addPrefixSpace: boolean };
  /** By id; tokenizer.json may lack them. */
  readonly addedTokens: ReadonlyMap<number, ListedToken>;
}

const tokenSchema = z.union([
  z.string(),
  z.object({ content: z.string() }).transform((token) => token.content),
]);
const namesSchema = z.object({
  bos_token: tokenSchema.nullish(),
  eos_token: tokenSchema.nullish(),
  unk_token: tokenSchema.nullish(),
  pad_token: tokenSchema.nullish(),
});
const listedSchema = z.object({
  content: z.string().min(1),
  special: z.boolean().default(false),
  normalized: z.boolean().optional(),
  lstrip: z.boolean().default(false),
  rstrip: z.boolean().default(false),
  single_word: z.boolean().default(false),
});
export type ListedToken = Readonly<Required<z.infer<typeof listedSchema>>> & { readonly file: string };
const configSchema = namesSchema.extend({
  tokenizer_class: z.string().nullish(),
  add_bos_token: z.boolean().nullish(),
  add_eos_token: z.boolean().nullish(),
  legacy: z.boolean().nullish(),
  add_prefix_space: z.boolean().nullish(),
  chat_template: z
    .union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))])
    .nullish(),
  added_tokens_decoder: z.record(z.string().regex(/^\d{1,9}$/), listedSchema).nullish(),
});
const encoderSchema = z.record(z.string().min(1), z.int().nonnegative());
const llamaClass = /^(Code)?L(lama|LaMA)Tokenizer(Fast)?$/;
const llamaTokens = { bos_token: '<s>', eos_token: '</s>', unk_token: '<unk>' } as const;

/** Without tokenizer_config.json there are no special tokens and no template. A GGUF file has its contents as metadata. */
export async function readTokenizerConfig(folder: string): Promise<TokenizerConfig> {
  const config = (await readFile(folder, 'tokenizer_config.json', configSchema)) ?? {};
  const isOld = config.added_tokens_decoder == null;
  const map = isOld ? await readFile(folder, 'special_tokens_map.json', namesSchema) : undefined;
  const isLlama = llamaClass.test(config.tokenizer_class ?? '') || isBareSentencePiece(folder, config);
  const specialTokens: Partial<Record<SpecialTokenName, string>> = {};
  const defaultNames = new Set<SpecialTokenName>();
  for (const name of specialTokenNames) {
    const said = map?.[name] ?? config[name];
    const isSaid = said !== undefined && said !== ''; // early conversions wrote "" and relied on the class
    if (typeof said === 'string' && isSaid) specialTokens[name] = said;
    if (isSaid || !isLlama || name === 'pad_token') continue;
    specialTokens[name] = llamaTokens[name];
    defaultNames.add(name);
  }
  return {
    specialTokens,
    defaultNames,
    tokenizerClass: config.tokenizer_class ?? undefined,
    chatTemplate: config.chat_template ?? undefined,
    llamaWrap: {
      bos: isLlama ? (config.add_bos_token ?? undefined) : undefined,
      eos: isLlama ? (config.add_eos_token ?? undefined) : undefined,
    },
    sentencePiece: { legacy: config.legacy ?? true, addPrefixSpace: config.add_prefix_space ?? true },
    addedTokens: isOld
      ? await readOldAddedTokens(folder, new Set(Object.values(specialTokens)))
      : listAddedTokens(config.added_tokens_decoder ?? {}),
  };
}

export function isLlamaClass({ tokenizerClass }: TokenizerConfig): boolean {
  return tokenizerClass === undefined || llamaClass.test(tokenizerClass);
}

function isBareSentencePiece(folder: string, { tokenizer_class }: z.infer<typeof configSchema>): boolean {
  if (tokenizer_class != null || existsSync(join(folder, 'tokenizer.json'))) return false;
  return existsSync(join(folder, 'tokenizer.model'));
}

function listAddedTokens(
  decoder: Readonly<Record<string, z.infer<typeof listedSchema>>>,
): ReadonlyMap<number, ListedToken> {
  return new Map(
    Object.entries(decoder).map(([id, token]) => [
      Number(id),
      { ...token, normalized: token.normalized ?? !token.special, file: 'tokenizer_config.json' },
    ]),
  );
}

async function readOldAddedTokens(
  folder: string,
  named: ReadonlySet<string>,
): Promise<ReadonlyMap<number, ListedToken>> {
  const file = 'added_tokens.json';
  const tokens = new Map<number, ListedToken>();
  for (const [content, id] of Object.entries((await readFile(folder, file, encoderSchema)) ?? {})) {
    const other = tokens.get(id);
    if (other !== undefined) {
      throw new MistletoeError(
        'text',
        `${join(folder, file)} gives the id ${id} to ${JSON.stringify(other.content)} and to ${JSON.stringify(content)}.`,
        { hint: 'Take the file as the model’s authors published it.' },
      );
    }
    const special = named.has(content);
    const flags = { special, normalized: !special, lstrip: false, rstrip: false, single_word: false };
    tokens.set(id, { content, ...flags, file });
  }
  return tokens;
}

async function readFile<Output>(
  folder: string,
  name: string,
  schema: z.ZodType<Output>,
): Promise<Output | undefined> {
  const path = join(folder, name);
  const isGguf = isGgufFile(folder);
  const text = isGguf ? undefined : await readTextFile(path, fileLimits.tokenizerConfiguration);
  const found = isGguf ? (await readGgufText(folder))?.tokenizerConfig : undefined;
  const contents = text === undefined ? found : parseJson(text, path);
  if (contents === undefined) return undefined;
  const parsed = schema.safeParse(contents);
  if (parsed.success) return parsed.data;
  const { place, fault } = z.describeFault(parsed.error);
  throw new MistletoeError('text', `${path}: ${place || 'the file'} is not as expected (${fault}).`, {
    hint: `Take ${name} as the model’s authors published it.`,
    cause: parsed.error,
  });
}
