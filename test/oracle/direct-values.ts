import { decodeHalves } from '../../src/core/half-floats.js';
import type { DirectPart, DirectWeight } from '../../src/runtime/weights.js';

export async function readDirectWeight({ shape, parts }: DirectWeight): Promise<Float32Array> {
  const values = new Float32Array(shape.reduce((product, size) => product * size, 1));
  const width = shape.at(-1) ?? 1;
  let firstColumn = 0;
  for (const part of parts) {
    const columns = part.shape.at(-1) ?? 1;
    let at = 0;
    for await (const piece of readValues(part)) {
      for (const value of piece) {
        const [row, column] = [Math.floor(at / columns), at % columns];
        const place = part.isTransposed ? column * width + row : row * width + column;
        values[firstColumn + place] = value;
        at += 1;
      }
    }
    firstColumn += (part.isTransposed ? part.shape[0] : columns) ?? 1;
  }
  return values;
}

async function* readValues({ dtype, read }: DirectPart): AsyncGenerator<Float32Array> {
  for await (const piece of read()) {
    const { buffer } = piece.slice(); // where values are aligned
    yield dtype === 'float32' ? new Float32Array(buffer) : decodeHalves(new Uint16Array(buffer), dtype);
  }
}
