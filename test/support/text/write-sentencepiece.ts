/** Writes SentencePiece models by hand: the fields of sentencepiece_model.proto that decide an encoding. */
export interface WrittenPiece {
  readonly piece: string | Buffer;
  readonly score?: number;
  /** 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. */
  readonly type?: number;
}

export interface WrittenModel {
  readonly pieces: readonly WrittenPiece[];
  /** 1 unigram, 2 BPE. Default 2. */
  readonly algorithm?: number;
  readonly addDummyPrefix?: boolean;
  /** Default false. */
  readonly removeExtraWhitespace?: boolean;
  readonly charsmap?: string;
}

export function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}

export const varintField = (number: number, value: number): Buffer =>
  Buffer.concat([varint(number * 8), varint(value)]);

export const bytesField = (number: number, bytes: Buffer | string): Buffer =>
  Buffer.concat([varint(number * 8 + 2), varint(Buffer.byteLength(bytes)), Buffer.from(bytes)]);

export function floatField(number: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([varint(number * 8 + 5), bytes]);
}

export function pieceField({ piece, score = 0, type }: WrittenPiece): Buffer {
  const parts = [bytesField(1, piece), floatField(2, score)];
  if (type !== undefined) parts.push(varintField(3, type));
  return bytesField(1, Buffer.concat(parts));
}

export function writeSentencePiece({
  pieces,
  algorithm = 2,
  addDummyPrefix = true,
  removeExtraWhitespace = false,
  charsmap = '',
}: WrittenModel): Buffer {
  const normalizer = [
    bytesField(1, 'identity'),
    bytesField(2, charsmap),
    varintField(3, Number(addDummyPrefix)),
    varintField(4, Number(removeExtraWhitespace)),
  ];
  return Buffer.concat([
    ...pieces.map(pieceField),
    bytesField(
      2,
      Buffer.concat([
        bytesField(1, 'a field that nobody reads'),
        varintField(3, algorithm),
        varintField(35, 1),
      ]),
    ),
    bytesField(3, Buffer.concat(normalizer)),
  ]);
}

/** Control tokens, all bytes, and a few pieces whose scores decide which of two merges comes first. */
export const smallPieces: readonly WrittenPiece[] = [
  { piece: '<unk>', type: 2 },
  { piece: '<s>', type: 3 },
  { piece: '</s>', type: 3 },
  ...Array.from({ length: 256 }, (_, byte) => ({
    piece: `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
    type: 6,
  })),
  ...['▁a', 'bc', 'ab', '▁ab', 'abc', '▁▁'].map((piece, rank) => ({ piece, score: -rank })),
  ...['▁', 'a', 'b', 'c', 'é', '🍕'].map((piece, rank) => ({ piece, score: -100 - rank })),
];
