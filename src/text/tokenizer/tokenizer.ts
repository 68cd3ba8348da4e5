/**
 * Tokenization by the Rust library that the models were trained with. Its Node binding encodes asynchronously; decoding is
 * synchronous, by passing pieces to the library's decoder. Truncation and padding settings of tokenizer.json are ignored.
 */
import { Tokenizer as Library } from 'tokenizers';
import { describeCause, MistletoeError } from '../../core/errors.js';
import type { PublishedTokenizer } from './published-tokenizers.js';
import { matchDecoder, matchPublished, maxBytesPerToken } from './published-tokenizers.js';
import { SandboxedEncoder } from './sandboxed-encoder.js';
import { readTokenizerFile, type ReadOptions, type TokenizerFile } from './tokenizer-file.js';
import { readTokenizerConfig, type SpecialTokenName, type TokenizerConfig } from './tokenizer-config.js';

export interface EncodeOptions {
  /** Adds the model's special tokens, usually the beginning-of-sequence token. Default true. */
  readonly addSpecialTokens?: boolean | undefined;
}

export interface Tokenizer {
  /** The largest id plus one; a model's logits may be wider. */
  readonly vocabularySize: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly specialIds: ReadonlySet<number>;
  readonly specialTokens: Readonly<Partial<Record<SpecialTokenName, string>>>;
  encode(text: string, options?: EncodeOptions): Promise<number[]>;
  encodeBatch(texts: readonly string[], options?: EncodeOptions): Promise<number[][]>;
  /** The min number of tokens of a text, without tokenizing it; 0 if unknown. */
  minTokens(text: string): number;
  /** Ids outside the vocabulary are skipped. */
  decode(ids: readonly number[], options?: { readonly skipSpecialTokens?: boolean }): string;
  hasToken(id: number): boolean;
  /** The raw piece of the vocabulary, for example `▁the` or `<0xE2>`. */
  tokenText(id: number): string;
  isSpecial(id: number): boolean;
  /** Whether the id is one raw byte (`<0xE2>`), which is text only together with its neighbors. */
  isByte(id: number): boolean;
  vocabulary(): ReadonlyMap<string, number>;
}

/**
 * Max characters of a text that this process encodes. The splits of published tokenizers backtrack once for every blank of
 * a run, and the library panics after ten million steps: a long run of blanks would end the process.
 */
const maxInProcessLength = 2 ** 20;
const bytePiece = /^<0x[0-9A-Fa-f]{2}>$/;

/** From tokenizer.json, else tokenizer.model, with the added tokens of the other files. */
export async function loadTokenizer(folder: string, options: ReadOptions = {}): Promise<Tokenizer> {
  const config = await readTokenizerConfig(folder);
  return openTokenizer(folder, config, await readTokenizerFile(folder, config, options));
}

export async function openTokenizer(
  folder: string,
  config: TokenizerConfig,
  file: TokenizerFile,
): Promise<Tokenizer> {
  const published = matchPublished(file.contents);
  const engine = published === undefined ? await openSandboxed(file) : openEngine(file, published);
  const bytesPerToken = maxBytesPerToken(published, file) ?? Infinity;
  const { ids, specialIds } = file;
  const pieces: (string | undefined)[] = [];
  for (const [piece, id] of ids) pieces[id] = piece;
  const { decoder } = engine;

  const idOf = (name: SpecialTokenName): number | undefined => {
    const token = config.specialTokens[name];
    if (token === undefined) return undefined;
    const id = ids.get(token);
    if (id !== undefined || config.defaultNames.has(name)) return id;
    throw new MistletoeError(
      'text',
      `tokenizer_config.json of ${folder} names ${JSON.stringify(token)} as ${name}, ` +
        'but the tokenizer has no such token.',
      { hint: 'The two files belong to different tokenizers; take both from the same model.' },
    );
  };
  const bosId = idOf('bos_token');
  const eosId = idOf('eos_token');

  // transformers rebuilds the post-processor of these classes from the flags, whatever tokenizer.json says.
  const { bos, eos } = config.llamaWrap;
  const wrap = (encoded: number[]): number[] => [
    ...((bos ?? true) && bosId !== undefined ? [bosId] : []),
    ...encoded,
    ...((eos ?? false) && eosId !== undefined ? [eosId] : []),
  ];
  const wrapsItself = bos !== undefined || eos !== undefined;

  const encodeBatch = async (texts: readonly string[], options: EncodeOptions = {}): Promise<number[][]> => {
    const special = options.addSpecialTokens ?? true;
    const encoded = await engine.encodeBatch(texts, special && !wrapsItself);
    return special && wrapsItself ? encoded.map(wrap) : encoded;
  };

  return {
    vocabularySize: pieces.length,
    bosId,
    eosId,
    specialIds,
    specialTokens: config.specialTokens,
    encodeBatch,
    encode: async (text, options) => (await encodeBatch([text], options))[0]!,
    minTokens: (text) => Math.ceil(Buffer.byteLength(text) / bytesPerToken),
    decode(sequence, { skipSpecialTokens = true } = {}) {
      const tokens: string[] = [];
      for (const id of sequence) {
        const piece = pieces[id];
        if (piece !== undefined && !(skipSpecialTokens && specialIds.has(id))) tokens.push(piece);
      }
      return decoder === null ? tokens.join(' ') : decoder.decode(tokens);
    },
    hasToken: (id) => pieces[id] !== undefined,
    tokenText(id) {
      const piece = pieces[id];
      if (piece !== undefined) return piece;
      throw new MistletoeError(
        'text',
        `Token id ${id} is not in the vocabulary of ${folder}, which has ids below ${pieces.length}.`,
      );
    },
    isSpecial: (id) => specialIds.has(id),
    isByte: (id) => bytePiece.test(pieces[id] ?? ''),
    vocabulary: () => ids,
  };
}

/** Encodes in this process or in a sandboxed one; decodes in this process. */
interface Engine {
  encodeBatch(texts: readonly string[], addSpecialTokens: boolean): Promise<number[][]>;
  readonly decoder: ReturnType<Library['getDecoder']>;
}

/** The library gets the published parts as written here, not the file: its JSON parser may read the file differently. */
function openEngine({ path, addedIds }: TokenizerFile, { contents }: PublishedTokenizer): Engine {
  const text = JSON.stringify(contents);
  const library = openLibrary(text, path);
  requireAddedIds(
    path,
    addedIds,
    Array.from(addedIds.keys(), (content) => library.tokenToId(content)),
  );
  let sandboxed: SandboxedEncoder | undefined;
  return {
    decoder: library.getDecoder(),
    async encodeBatch(texts, addSpecialTokens) {
      if (texts.some(({ length }) => length > maxInProcessLength)) {
        sandboxed ??= new SandboxedEncoder({ path, text, added: [], isPublished: true });
        return sandboxed.encodeBatch(texts, addSpecialTokens);
      }
      try {
        const encodings = await library.encodeBatch([...texts], { addSpecialTokens });
        return encodings.map((encoding) => encoding.getIds());
      } catch (cause) {
        throw new MistletoeError('text', `${path} cannot encode a text: ${describeCause(cause)}.`, {
          hint: 'Use the tokenizer as the model’s authors published it.',
          cause,
        });
      }
    },
  };
}

async function openSandboxed({ text, path, addedIds, contents }: TokenizerFile): Promise<Engine> {
  const decoder = matchDecoder(contents.decoder);
  if (decoder === undefined) {
    throw new MistletoeError('text', `${path} has a decoder that is not known to be safe.`, {
      hint: 'Known are ByteLevel, Fuse, Metaspace and the Sequence of Llama; others can end the process.',
    });
  }
  const encoder = new SandboxedEncoder({ path, text, added: [...addedIds.keys()], isPublished: false });
  await encoder.try();
  requireAddedIds(path, addedIds, encoder.addedIds);
  const bare = { version: '1.0', model: { type: 'BPE', vocab: {}, merges: [] }, decoder };
  return {
    decoder: openLibrary(JSON.stringify(bare), path).getDecoder(),
    encodeBatch: (texts, addSpecialTokens) => encoder.encodeBatch(texts, addSpecialTokens),
  };
}

function openLibrary(text: string, path: string): Library {
  try {
    const library = Library.fromString(text);
    library.disableTruncation();
    library.disablePadding();
    return library;
  } catch (cause) {
    throw new MistletoeError('text', `${path} is not a usable tokenizer: ${describeCause(cause)}.`, {
      hint: 'The file may be truncated, or written by a newer version of the tokenizers library.',
      cause,
    });
  }
}

/** The library assigns ids to added tokens by its own rules, whatever the file says. */
function requireAddedIds(
  path: string,
  addedIds: ReadonlyMap<string, number>,
  found: readonly (number | null)[],
): void {
  for (const [index, [content, id]] of [...addedIds].entries()) {
    const given = found[index] ?? null;
    if (given === id) continue;
    throw new MistletoeError(
      'text',
      `${path} gives the added token ${JSON.stringify(content)} the id ${id}, but the tokenizers library ${given === null ? 'has no such token' : `gives it ${given}`}.`,
      {
        hint: 'Ids of added tokens must follow those of the vocabulary; take the file as the model’s authors published it.',
      },
    );
  }
}

export interface VocabularyDifference {
  readonly id: number;
  readonly left: string | undefined;
  readonly right: string | undefined;
}

/** The smallest id with different pieces in the two tokenizers; undefined if they agree on every id. */
export function findVocabularyDifference(
  left: Tokenizer,
  right: Tokenizer,
): VocabularyDifference | undefined {
  const pieceOf = (tokenizer: Tokenizer, id: number): string | undefined =>
    tokenizer.hasToken(id) ? tokenizer.tokenText(id) : undefined;
  let found: VocabularyDifference | undefined;
  // By entries, not by counting up to the largest id: ids can have gaps.
  for (const tokenizer of [left, right])
    for (const id of tokenizer.vocabulary().values()) {
      if (found !== undefined && id >= found.id) continue;
      const difference = { id, left: pieceOf(left, id), right: pieceOf(right, id) };
      if (difference.left !== difference.right) found = difference;
    }
  return found;
}
