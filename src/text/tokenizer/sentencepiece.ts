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
    model: { type: 'BPE', dropout: null, unk_token: unknown, ...flags, vocab, merges: listMerges(model) },
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

interface Merge {
  readonly left: string;
  readonly right: string;
  readonly score: number;
  readonly leftLength: number;
  readonly rightLength: number;
}

/** generate_merges of transformers, which counts characters by code points. */
function listMerges({ pieces }: SentencePieceModel): [string, string][] {
  const ids = new Map(pieces.map(({ piece }, id) => [piece, id]));
  const merges: Merge[] = [];
  for (const { piece, score } of pieces) {
    const characters = Array.from(piece);
    const cuts: Merge[] = [];
    for (let cut = 1, at = 0; cut < characters.length; cut++) {
      at += characters[cut - 1]!.length;
      const [left, right] = [piece.slice(0, at), piece.slice(at)];
      if (!ids.has(left) || !ids.has(right)) continue;
      cuts.push({ left, right, score, leftLength: cut, rightLength: characters.length - cut });
    }
    cuts.sort((a, b) => ids.get(a.left)! - ids.get(b.left)! || ids.get(a.right)! - ids.get(b.right)!);
    pushAll(merges, cuts);
  }
  merges.sort((a, b) => b.score - a.score || b.leftLength - a.leftLength || b.rightLength - a.rightLength);
  return merges.map(({ left, right }) => [left, right]);
}
