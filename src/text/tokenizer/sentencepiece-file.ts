/**
 * A SentencePiece model (tokenizer.model): pieces with scores and types, the algorithm and the normalizer. Only fields that
 * affect encoding are read, and all sizes are checked.
 */
import { isMissing, readBoundedFile } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { fileLimits } from '../../core/limits.js';

/**
 * The wire format of protocol buffers: a message is a sequence of numbered fields, each a varint, four or eight bytes, or a
 * length and that many bytes. Lengths are checked against the remaining bytes, so a hostile file costs at most its size.
 */
interface ProtobufField {
  readonly number: number;
  readonly kind: 'varint' | 'fixed64' | 'bytes' | 'fixed32';
  /** Of a varint; else the number of bytes. */
  readonly value: bigint;
  readonly bytes: Buffer;
}

const wireTypes: Readonly<Record<number, ProtobufField['kind']>> = {
  0: 'varint',
  1: 'fixed64',
  2: 'bytes',
  5: 'fixed32',
};
const fixedSizes: Partial<Record<ProtobufField['kind'], bigint>> = { fixed32: 4n, fixed64: 8n };
const noBytes = Buffer.alloc(0);

/** Fields in the order of the file; `fail` makes the caller's error. */
function* readProtobuf(message: Buffer, fail: Fail): Generator<ProtobufField> {
  let position = 0;
  const take = (length: number): Buffer => {
    if (length > message.length - position) {
      throw fail(`a field of ${length} bytes begins where ${message.length - position} are left`);
    }
    position += length;
    return message.subarray(position - length, position);
  };
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = take(1)[0]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw fail('a number has more than 10 bytes');
  };
  while (position < message.length) {
    const tag = varint();
    const number = Number(tag >> 3n);
    const wireType = Number(tag & 7n);
    const kind = wireTypes[wireType];
    if (number === 0 || number >= 2 ** 29) throw fail(`a field has the number ${number}`);
    if (kind === undefined) throw fail(`field ${number} has the wire type ${wireType}`);
    const value = fixedSizes[kind] ?? varint();
    const bytes = kind === 'varint' ? noBytes : take(Number(value));
    yield { number, kind, value, bytes };
  }
}

export const pieceTypes = ['normal', 'unknown', 'control', 'user-defined', 'unused', 'byte'] as const;
export type PieceType = (typeof pieceTypes)[number];

export interface SentencePiece {
  readonly piece: string;
  readonly score: number;
  readonly type: PieceType;
}

export interface SentencePieceModel {
  readonly pieces: readonly SentencePiece[];
  readonly algorithm: string;
  readonly addsDummyPrefix: boolean;
  readonly removesExtraWhitespace: boolean;
  /** Whether characters are mapped first, for example by NFKC. */
  readonly mapsCharacters: boolean;
}

const maximumPieces = 1_000_000;
const maximumPieceCharacters = 512;

export async function readSentencePiece(path: string): Promise<SentencePieceModel | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readBoundedFile(path, fileLimits.sentencePiece);
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw notReadable(path, describeCause(cause));
  }
  return parseSentencePiece(bytes, path);
}

function notReadable(path: string, why: string): MistletoeError {
  return new MistletoeError('text', `${path} is not a SentencePiece model that can be read: ${why}.`, {
    hint: 'Fetch the file again (a Git LFS pointer is not the file), or put the tokenizer.json of the same model beside it.',
  });
}

export function parseSentencePiece(bytes: Buffer, path: string): SentencePieceModel {
  const fail = (why: string): Error => notReadable(path, why);
  const pieces: SentencePiece[] = [];
  const ids = new Map<string, number>();
  let algorithm = 1n;
  let normalizer = { addsDummyPrefix: true, removesExtraWhitespace: true, mapsCharacters: false };
  for (const field of readProtobuf(bytes, fail)) {
    if (field.number === 1) {
      const piece = parsePiece(bytesOf(field, fail), pieces.length, fail);
      const earlier = ids.get(piece.piece);
      if (earlier !== undefined) {
        throw fail(`pieces ${earlier} and ${pieces.length} are both ${JSON.stringify(piece.piece)}`);
      }
      if (pieces.length === maximumPieces) throw fail(`it has more than ${maximumPieces} pieces`);
      ids.set(piece.piece, pieces.length);
      pieces.push(piece);
    } else if (field.number === 2) {
      for (const inner of readProtobuf(bytesOf(field, fail), fail)) {
        if (inner.number === 3) algorithm = varintOf(inner, fail);
      }
    } else if (field.number === 3) {
      normalizer = parseNormalizer(bytesOf(field, fail), fail);
    }
  }
  if (pieces.length === 0) throw fail('it has no pieces');
  const name = ['unigram', 'bpe', 'word', 'char'][Number(algorithm) - 1] ?? `number ${algorithm}`;
  return { pieces, algorithm: name, ...normalizer };
}

type Fail = (why: string) => Error;

function parsePiece(message: Buffer, id: number, fail: Fail): SentencePiece {
  let piece: string | undefined;
  let score = 0;
  let type = 1n;
  for (const field of readProtobuf(message, fail)) {
    if (field.number === 1) piece = textOf(bytesOf(field, fail), id, fail);
    if (field.number === 2 && field.kind !== 'fixed32') throw fail(`the score of piece ${id} is no float`);
    if (field.number === 2) score = field.bytes.readFloatLE();
    if (field.number === 3) type = varintOf(field, fail);
  }
  const typeName = pieceTypes[Number(type) - 1];
  if (piece === undefined || piece === '') throw fail(`piece ${id} has no text`);
  if (!Number.isFinite(score)) throw fail(`piece ${id} has the score ${score}`);
  if (typeName === undefined) throw fail(`piece ${id} has the type ${type}`);
  return { piece, score, type: typeName };
}

function textOf(bytes: Buffer, id: number, fail: Fail): string {
  if (bytes.length > 4 * maximumPieceCharacters) throw fail(`piece ${id} has ${bytes.length} bytes`);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw fail(`piece ${id} is not UTF-8`);
  }
}

function parseNormalizer(
  message: Buffer,
  fail: Fail,
): Pick<SentencePieceModel, 'addsDummyPrefix' | 'removesExtraWhitespace' | 'mapsCharacters'> {
  const found = { addsDummyPrefix: true, removesExtraWhitespace: true, mapsCharacters: false };
  for (const field of readProtobuf(message, fail)) {
    if (field.number === 2) found.mapsCharacters = bytesOf(field, fail).length > 0;
    if (field.number === 3) found.addsDummyPrefix = varintOf(field, fail) !== 0n;
    if (field.number === 4) found.removesExtraWhitespace = varintOf(field, fail) !== 0n;
  }
  return found;
}

function bytesOf({ number, kind, bytes }: ProtobufField, fail: Fail): Buffer {
  if (kind === 'bytes') return bytes;
  throw fail(`field ${number} is a ${kind} where bytes were expected`);
}

function varintOf({ number, kind, value }: ProtobufField, fail: Fail): bigint {
  if (kind === 'varint') return value;
  throw fail(`field ${number} is ${kind} where a varint was expected`);
}
