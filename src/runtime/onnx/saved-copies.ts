export interface SavedCopy {
  readonly hash: string;
  readonly pieces: readonly { readonly offsetBytes: number; readonly sizeBytes: number }[];
}

/** A copy is named OPERATOR+HASH|OFFSET;LENGTH;CHECKSUM|... as text in the saved model. */
export function findCopies(model: string): readonly SavedCopy[] {
  const names = model.matchAll(/(?:MatMul|Gemm)\+(\d+)((?:\|\d+;\d+;\d+)+)/g);
  return [...names].map(([, hash, places]) => ({
    hash: hash!,
    pieces: places!
      .slice(1)
      .split('|')
      .map((piece) => {
        const [offsetBytes, sizeBytes] = piece.split(';').map(Number);
        return { offsetBytes: offsetBytes!, sizeBytes: sizeBytes! };
      }),
  }));
}
