/**
 * Tokenizer and chat template of a GGUF file, in the form of tokenizer.json and tokenizer_config.json. Two kinds are read:
 * `llama`, a SentencePiece model of pieces with scores, and `gpt2`, byte-level BPE with merges. For the latter the file
 * names only how texts are split before merging (`tokenizer.ggml.pre`), so that must be a known name.
 */
import { readGgufHeader, type GgufHeader } from '../../checkpoint/gguf/gguf-header.js';
import {
  findFlag,
  findNumber,
  findNumbers,
  findText,
  findTexts,
} from '../../checkpoint/gguf/gguf-metadata.js';
import { quote } from '../../checkpoint/stored-tensor.js';
import { MistletoeError } from '../../core/errors.js';
import { fileLimits, maxVocabularySize } from '../../core/limits.js';
import { pieceTypes, type SentencePiece } from './sentencepiece-file.js';
import { convertSentencePiece, describePieces } from './sentencepiece.js';
import { describeTokenizer, findStructure } from './tokenizer-structures.js';

export interface GgufText {
  readonly header: GgufHeader;
  readonly kind: string;
  readonly tokens: readonly string[];
  readonly tokenizerConfig: object;
}

/** Undefined for a file without a vocabulary: such a draft model uses the tokenizer of its target. */
export async function readGgufText(path: string): Promise<GgufText | undefined> {
  const header = await readGgufHeader(path);
  const kind = findText(header, 'tokenizer.ggml.model') ?? 'none';
  if (kind === 'none') return undefined;
  const tokens = findTexts(header, 'tokenizer.ggml.tokens', maxVocabularySize) ?? [];
  if (tokens.length === 0) throw refuse(path, 'names a tokenizer and has no tokens');
  const tokenOf = (name: string): string | null => {
    const key = `tokenizer.ggml.${name}_token_id`;
    const id = findNumber(header, key);
    if (id === undefined) return null;
    const token = tokens[id];
    if (token !== undefined) return token;
    throw refuse(path, `has the ${key} ${id}, but ${tokens.length} tokens`);
  };
  const addsBos = findFlag(header, 'tokenizer.ggml.add_bos_token');
  const tokenizerConfig = {
    // The class that follows the two flags for special tokens.
    tokenizer_class: 'LlamaTokenizerFast',
    bos_token: tokenOf('bos'),
    eos_token: tokenOf('eos'),
    unk_token: tokenOf('unknown'),
    pad_token: tokenOf('padding'),
    add_bos_token: addsBos ?? (kind === 'llama' || splitOf(header) === 'Llama 3'),
    add_eos_token: findFlag(header, 'tokenizer.ggml.add_eos_token') ?? false,
    chat_template: findText(header, 'tokenizer.chat_template', fileLimits.template),
    added_tokens_decoder: {}, // all tokens are in the vocabulary
  };
  return { header, kind, tokens, tokenizerConfig };
}

export async function readGgufTokenizer(path: string): Promise<object> {
  const text = await readGgufText(path);
  if (text === undefined) {
    throw refuse(
      path,
      'has no tokenizer',
      'Use a file with a vocabulary, as llama.cpp’s converter writes it.',
    );
  }
  const pieces = readPieces(text);
  switch (text.kind) {
    case 'llama':
      return describeSentencePiece(text, pieces);
    case 'gpt2':
      return describeByteLevel(text, pieces);
    default:
      throw refuse(
        path,
        `has a tokenizer of the kind ${quote(text.kind)}`,
        'The kinds llama and gpt2 are read.',
      );
  }
}

const longestPiece = 2048;

function readPieces({ header, tokens }: GgufText): readonly SentencePiece[] {
  const { path } = header;
  const scores = findNumbers(header, 'tokenizer.ggml.scores', tokens.length);
  const types = findNumbers(header, 'tokenizer.ggml.token_type', tokens.length);
  const ids = new Map<string, number>();
  return tokens.map((piece, id) => {
    const earlier = ids.get(piece);
    ids.set(piece, id);
    const score = scores?.[id] ?? 0;
    const number = types?.[id] ?? 1;
    const type = pieceTypes[number - 1];
    if (earlier !== undefined) throw refuse(path, `has ${quote(piece)} as tokens ${earlier} and ${id}`);
    if (piece === '' || piece.length > longestPiece)
      throw refuse(path, `has a token ${id} of ${piece.length} characters`);
    if (!Number.isFinite(score)) throw refuse(path, `has the score ${score} for token ${id}`);
    if (type === undefined) throw refuse(path, `has the type ${number} for token ${id}`);
    return { piece, score, type };
  });
}

function describeSentencePiece({ header }: GgufText, pieces: readonly SentencePiece[]): object {
  const model = {
    pieces,
    algorithm: 'bpe',
    addsDummyPrefix: findFlag(header, 'tokenizer.ggml.add_space_prefix') ?? true,
    removesExtraWhitespace: findFlag(header, 'tokenizer.ggml.remove_extra_whitespaces') ?? false,
    mapsCharacters: header.metadata.has('tokenizer.ggml.precompiled_charsmap'),
  };
  // llama.cpp puts a space before every text between special tokens, as the older transformers did.
  return convertSentencePiece(model, header.path, { legacy: true, addPrefixSpace: true });
}

const splits: ReadonlyMap<string, string> = new Map([
  ['llama-bpe', 'Llama 3'],
  ['llama3', 'Llama 3'],
  ['llama-v3', 'Llama 3'],
  ['qwen2', 'Qwen 2'],
  ['gpt-2', 'GPT-2'],
  ['smollm', 'SmolLM'],
]);

function splitOf(header: GgufHeader): string | undefined {
  return splits.get(findText(header, 'tokenizer.ggml.pre') ?? '');
}

const maxMerges = 4 * maxVocabularySize;

function describeByteLevel({ header }: GgufText, pieces: readonly SentencePiece[]): object {
  const name = splitOf(header);
  const structure = findStructure(name);
  if (structure === undefined) {
    const given = findText(header, 'tokenizer.ggml.pre');
    throw refuse(
      header.path,
      given === undefined
        ? 'has no tokenizer.ggml.pre, which names how texts are split'
        : `splits texts by ${quote(given)} (tokenizer.ggml.pre), which is not known here`,
      `Known: ${[...splits.keys()].join(', ')}. Use the safetensors folder of the model, or convert it again with a current llama.cpp.`,
    );
  }
  // The converter fills gaps between ids with tokens of the type "unused", which the model's own tokenizer does not have.
  const { vocab, added } = describePieces(pieces, 'unused');
  const merges = findTexts(header, 'tokenizer.ggml.merges', maxMerges) ?? [];
  const flags = { fuse_unk: false, byte_fallback: false, ignore_merges: name === 'Llama 3' };
  return describeTokenizer(structure, {
    added,
    model: { type: 'BPE', dropout: null, unk_token: null, ...flags, vocab, merges },
  });
}

const publishedHint =
  'Use the file as the model’s authors published it, or convert the model again with a current llama.cpp.';

function refuse(path: string, problem: string, hint = publishedHint): MistletoeError {
  return new MistletoeError('text', `${path} ${problem}.`, { hint });
}
