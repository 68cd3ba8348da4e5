/** Small model folders for tests: tokenizers of the kinds that the bundled model does not show. */
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { byteLevelAlphabet } from 'tokenizers';
import { afterAll } from 'vitest';
import { makeTemporaryFolder } from '../checkpoint/temporary-folder.js';

export const bundledTarget = resolve(import.meta.dirname, '../../../models/reference/target');

const removals: (() => void)[] = [];
afterAll(() => {
  for (const remove of removals) remove();
});

/** Writes the files into a fresh folder that is there until the test file ends; values that are not text are written as JSON. */
export function writeFolder(files: Readonly<Record<string, unknown>>): string {
  const { path: folder, remove } = makeTemporaryFolder();
  removals.push(remove);
  for (const [name, contents] of Object.entries(files)) {
    writeFileSync(join(folder, name), typeof contents === 'string' ? contents : JSON.stringify(contents));
  }
  return folder;
}

const special = (id: number, content: string): Record<string, unknown> => ({
  id,
  content,
  special: true,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
});

const addBos = {
  type: 'TemplateProcessing',
  single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
  pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 0 } }],
  special_tokens: { '<s>': { id: '<s>', ids: [0], tokens: ['<s>'] } },
};

/** The parts of a tokenizer.json that differ; the file may carry more, as a real one does. */
export function tokenizerFile(model: Record<string, unknown>, parts: Record<string, unknown>): object {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [special(0, '<s>'), special(1, '</s>')],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: addBos,
    decoder: null,
    ...parts,
    model,
  };
}

/** Every token is one or a few bytes; some tokens end or begin inside a character. */
export function byteLevelTokenizer(parts: Record<string, unknown> = {}): object {
  // Without merges each byte of a text is a token; the longer pieces are reachable by id only.
  const alphabet = byteLevelAlphabet().sort();
  const byteOf = [...Array(256).keys()].map((byte) => byteLevelCharacter(byte));
  const cut = [
    [0xe2, 0x82],
    [0x82, 0xac],
    [0xf0, 0x9f],
    [0x8d, 0x95, 0x20],
    [0xac, 0xe2],
    [0x61, 0x62],
  ].map((bytes) => bytes.map((byte) => byteOf[byte]).join(''));
  const vocab = Object.fromEntries(['<s>', '</s>', ...alphabet, ...cut].map((piece, id) => [piece, id]));
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  return tokenizerFile(
    { type: 'BPE', vocab, merges: [] },
    { pre_tokenizer: byteLevel, decoder: byteLevel, ...parts },
  );
}

/** The printable stand-in for a byte: itself if it is visible Latin-1, else the next free letter from U+0100 on. */
function byteLevelCharacter(byte: number): string {
  const isVisible = (code: number): boolean =>
    (code >= 33 && code <= 126) || (code >= 161 && code <= 172) || (code >= 174 && code <= 255);
  if (isVisible(byte)) return String.fromCharCode(byte);
  const rank = [...Array(byte).keys()].filter((code) => !isVisible(code)).length;
  return String.fromCharCode(256 + rank);
}

export function metaspaceTokenizer(): object {
  const pieces = ['<s>', '</s>', '<unk>', '▁', '▁a', '▁the', 'b', 'c', '世', 'é', '▁▁', '\u0301'];
  const metaspace = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: false };
  return tokenizerFile(
    { type: 'Unigram', unk_id: 2, byte_fallback: false, vocab: pieces.map((piece, id) => [piece, -id]) },
    { pre_tokenizer: metaspace, decoder: metaspace },
  );
}
