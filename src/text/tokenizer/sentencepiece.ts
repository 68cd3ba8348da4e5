/**
 * Converts a tokenizer.model into the tokenizer.json of transformers' LlamaConverter. SentencePiece's BPE repeatedly joins
 * the two neighbors whose union has the best score; the tokenizers library applies a list of merges in order. Both agree
 * if the list has every split of a piece into two pieces, best scores first; ties go to the longer left side, then the
 * longer right side, then the order of the vocabulary.
 */
import { MistletoeError } from '../../core/errors.js';
import { pushAll } from '../../core/vector.js';
import type { PieceType, SentencePiece, SentencePieceModel } from './sentencepiece-file.js';
import { beginWith, describeTokenizer, findStructure } from './tokenizer-structures.js';

/** Of added tokens that are matched as they are written. */
export const literalFlags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
const addedTypes: readonly PieceType[] = ['control', 'user-defined', 'unknown'];

/** Vocabulary and added tokens of pieces; their ids are their places in the list. */
export function describePieces(pieces: readonly SentencePiece[], leftOut?: PieceType) {
  const used = pieces.map((each, id) => ({ ...each, id })).filter(({ type }) => type !== leftOut);
  return {
    vocab: Object.fromEntries(used.map(({ piece, id }) => [piece, id])),
    added: used
      .filter(({ type }) => addedTypes.includes(type))
      .map(({ piece, type, id }) => ({
        id,
        content: piece,
        special: type !== 'user-defined',
        ...literalFlags,
      })),
  };
}

/**
 * `legacy` is transformers' flag of the same name: true puts a space before every text between special tokens, false only
 * at the beginning. Without `addPrefixSpace` there is none.
 */
export function convertSentencePiece(
  model: SentencePieceModel,
  path: string,
  { legacy, addPrefixSpace }: Readonly<Record<'legacy' | 'addPrefixSpace', boolean>>,
): object {
  refuseOthers(model, path);
  const { pieces } = model;
  const suffix = addPrefixSpace && model.addsDummyPrefix ? '' : ' without a prefix';
  const structure = findStructure((legacy ? 'Llama 2' : 'Mistral') + suffix)!;
  const { vocab, added } = describePieces(pieces);
  const unknown = pieces.find(({ type }) => type === 'unknown')?.piece ?? null;
  const begin = pieces.findIndex(({ piece }) => piece === '<s>');
  const flags = { fuse_unk: true, byte_fallback: true, ignore_merges: false };
  return describeTokenizer(structure, {
    added,
    wrapper: begin < 0 ? null : beginWith('<s>', begin),
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: unknown,
      ...flags,
      vocab,
      merges: listMerges(model, path),
    },
  });
}

function refuseOthers(
  { algorithm, mapsCharacters, removesExtraWhitespace }: SentencePieceModel,
  path: string,
): void {
  let why = '';
  if (mapsCharacters || removesExtraWhitespace) {
    const how = mapsCharacters ? 'it maps characters' : 'it removes extra spaces';
    why = `normalises its text (${how}); none, as in Llama's, was expected`;
  }
  if (algorithm !== 'bpe')
    why = `is a SentencePiece model of the type ${algorithm}; bpe, as Llama's, was expected`;
  if (why !== '') throw new MistletoeError('text', `${path} ${why}.`, { hint: convertHint });
}

export const convertHint =
  'Convert it where transformers is installed, and put the tokenizer.json into the folder: ' +
  `python -c "from transformers import AutoTokenizer; AutoTokenizer.from_pretrained('DIR').save_pretrained('DIR')".`;

/**
 * A merge is as long as its piece, and a piece of n characters can have n - 1 merges: pieces `a`, `aa`, `aaa`, ... of one
 * megabyte have merges of 700. Those of Llama 2 have twice the characters of its pieces.
 */
const maxMergeCharacters = (pieceCharacters: number): number => 2 ** 20 + 8 * pieceCharacters;

interface Merge {
  readonly left: number;
  readonly right: number;
  readonly score: number;
}

/** generate_merges of transformers, which counts characters by code points. */
function listMerges({ pieces }: SentencePieceModel, path: string): [string, string][] {
  const texts = pieces.map(({ piece }) => piece);
  const reversed = texts.map((text) => Array.from(text).reverse().join(''));
  const [prefixes, suffixes] = [findPrefixes(texts), findPrefixes(reversed)];
  const characters = texts.map((text) => Array.from(text).length);
  const max = maxMergeCharacters(texts.reduce((sum, { length }) => sum + length, 0));
  const merges: Merge[] = [];
  let total = 0;
  for (const [id, { piece, score }] of pieces.entries()) {
    const lefts = new Map<number, number>(); // by length
    for (let left = prefixes[id]!; left >= 0; left = prefixes[left]!) lefts.set(texts[left]!.length, left);
    const cuts: Merge[] = [];
    for (let right = lefts.size === 0 ? -1 : suffixes[id]!; right >= 0; right = suffixes[right]!) {
      const left = lefts.get(piece.length - texts[right]!.length);
      if (left !== undefined) cuts.push({ left, right, score });
    }
    total += cuts.length * piece.length;
    if (total > max) {
      throw new MistletoeError(
        'text',
        `${path} has ${pieces.length} pieces that are made of each other in too many ways: their merges have more than ${max} characters.`,
        { hint: 'Use the tokenizer as the model’s authors published it; do not trust this one.' },
      );
    }
    cuts.sort((a, b) => a.left - b.left || a.right - b.right);
    pushAll(merges, cuts);
  }
  const lengthOf = (id: number): number => characters[id]!;
  merges.sort(
    (a, b) =>
      b.score - a.score || lengthOf(b.left) - lengthOf(a.left) || lengthOf(b.right) - lengthOf(a.right),
  );
  return merges.map(({ left, right }) => [texts[left]!, texts[right]!]);
}

/**
 * For each text, the index of the longest other text that it begins with, or -1. In sorted order, what a text begins with
 * is among what the text before it begins with, so each text is compared with few others.
 */
function findPrefixes(texts: readonly string[]): Int32Array {
  const found = new Int32Array(texts.length).fill(-1);
  const order = texts.map((text, index) => ({ text, index })).sort((a, b) => (a.text < b.text ? -1 : 1));
  let last = -1;
  for (const { text, index } of order) {
    while (last >= 0 && !text.startsWith(texts[last]!)) last = found[last]!;
    found[index] = last;
    last = index;
  }
  return found;
}
