/**
 * Tiny models with unlike tokenizers: a byte-level BPE, which writes blanks as `Ġ`, and one of SentencePiece's kind, which
 * writes them as `▁` and has tokens of single bytes. Both merge pieces, so that tokens at a seam can merge.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TokenBytes } from '../../src/text/tokenizer/token-bytes.js';
import { loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { createRandom } from '../../src/core/random.js';
import type { WritableTensor } from './checkpoint/encode-values.js';
import type { TinySizes } from './tiny-checkpoints.js';
import { decoderTensors, llamaConfig, noise, writeCheckpoint } from './tiny-checkpoints.js';

export interface TinyVocabulary {
  readonly kind: 'byte-level' | 'sentencepiece';
  readonly pieces: readonly string[];
}

const letters = Array.from('abcdefgh');
/** Of the euro sign. */
const euro = { letters: ['â', 'Ĥ', '¬'], pieces: ['<0xE2>', '<0x82>', '<0xAC>'] };

export const byteLevel: TinyVocabulary = {
  kind: 'byte-level',
  pieces: ['</s>', ...letters, 'Ġ', ...euro.letters, 'ab', 'Ġa', 'Ġab', 'cd', 'efg', 'ef', 'h!', '!'],
};

export const sentencePiece: TinyVocabulary = {
  kind: 'sentencepiece',
  pieces: ['<s>', '</s>', ...euro.pieces, '▁', ...[...letters].reverse(), '!', 'bc', '▁a', 'de', 'gh', '▁▁'],
};

/** Merges every piece from a shorter one and its last letter, or its first letter and the rest. */
function listMerges(pieces: readonly string[]): string[][] {
  return pieces.flatMap((piece) => {
    if (piece.length < 2 || piece.startsWith('<')) return [];
    const splits = Array.from({ length: piece.length - 1 }, (_, cut) => [
      piece.slice(0, cut + 1),
      piece.slice(cut + 1),
    ]);
    return splits.filter((parts) => parts.every((part) => pieces.includes(part))).slice(0, 1);
  });
}

export function writeTokenizer(folder: string, { kind, pieces }: TinyVocabulary): void {
  const isByteLevel = kind === 'byte-level';
  const replace = (from: string, to: string) => ({ type: 'Replace', pattern: { String: from }, content: to });
  const split = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  const strip = { type: 'Strip', content: ' ', start: 1, stop: 0 };
  const special = pieces.filter((piece) => /^<\/?s>$/.test(piece));
  const file = {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: special.map((content) => ({
      id: pieces.indexOf(content),
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: isByteLevel
      ? null
      : { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, replace(' ', '▁')] },
    pre_tokenizer: isByteLevel ? split : null,
    post_processor: special.includes('<s>')
      ? {
          type: 'TemplateProcessing',
          single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
          pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
          special_tokens: { '<s>': { id: '<s>', ids: [pieces.indexOf('<s>')], tokens: ['<s>'] } },
        }
      : null,
    decoder: isByteLevel
      ? { ...split, add_prefix_space: true }
      : {
          type: 'Sequence',
          decoders: [replace('▁', ' '), { type: 'ByteFallback' }, { type: 'Fuse' }, strip],
        },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: !isByteLevel,
      vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])),
      merges: listMerges(pieces),
    },
  };
  const config = { eos_token: '</s>', ...(special.includes('<s>') ? { bos_token: '<s>' } : {}) };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(file));
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify(config));
}

/** A target with this vocabulary. */
export function writeTarget(folder: string, sizes: TinySizes, vocabulary: TinyVocabulary): string {
  const own = { ...sizes, vocabularySize: vocabulary.pieces.length };
  writeCheckpoint(folder, 'model.safetensors', decoderTensors(own), llamaConfig(own));
  writeTokenizer(folder, vocabulary);
  return folder;
}

/** The same model with another vocabulary: tokens of the same bytes have the target's rows, others have noise. */
export async function writeTranslation(
  folder: string,
  sizes: TinySizes,
  { from, to }: { readonly from: TinyVocabulary; readonly to: TinyVocabulary },
): Promise<string> {
  writeTarget(folder, sizes, from);
  const source = new TokenBytes(await loadTokenizer(folder), from.pieces.length);
  writeTokenizer(folder, to);
  const own = new TokenBytes(await loadTokenizer(folder), to.pieces.length);
  const tensors = decoderTensors({ ...sizes, vocabularySize: from.pieces.length });
  const random = createRandom('translation');
  const translate = (table: WritableTensor): WritableTensor => {
    const { hiddenSize } = sizes;
    const rows = noise(random, [to.pieces.length, hiddenSize], 0.2);
    const values = Float32Array.from(rows.values, Number);
    to.pieces.forEach((_, id) => {
      const place = source.find(own.of(id));
      if (place === undefined) return;
      for (let column = 0; column < hiddenSize; column++)
        values[id * hiddenSize + column] = Number(table.values[place * hiddenSize + column]);
    });
    return { dtype: 'F32', shape: [to.pieces.length, hiddenSize], values };
  };
  const translated = {
    ...tensors,
    'model.embed_tokens.weight': translate(tensors['model.embed_tokens.weight']!),
    'lm_head.weight': translate(tensors['lm_head.weight']!),
  };
  const config = llamaConfig({ ...sizes, vocabularySize: to.pieces.length });
  return writeCheckpoint(folder, 'model.safetensors', translated, config);
}
