/**
 * Cosine and sine by position, computed in double precision and stored as float32 like the reference implementations.
 */
import type { RotaryScaling } from './rotary-frequencies.js';
import { attentionFactorOf, scaleFrequencies } from './rotary-frequencies.js';

export type { RotaryScaling } from './rotary-frequencies.js';

export function rotaryFrequencies(headSize: number, base: number, scaling: RotaryScaling): Float32Array {
  return Float32Array.from(scaleFrequencies(headSize, base, scaling));
}

export interface RotaryAngles {
  readonly cosine: Float32Array; // [position, headSize / 2]
  readonly sine: Float32Array; // [position, headSize / 2]
}

/** Looks angles up by position; the table grows as longer positions are asked for. */
export class RotaryTable {
  private cosine = new Float32Array();
  private sine = new Float32Array();

  constructor(
    private readonly frequencies: Float32Array /* [headSize / 2] */,
    /** Scales both, as yarn and longrope ask. */
    private readonly attentionFactor = 1,
  ) {}

  anglesAt(positions: Int32Array): RotaryAngles {
    const width = this.frequencies.length;
    const highest = positions.reduce((most, position) => Math.max(most, position), 0);
    if ((highest + 1) * width > this.cosine.length) this.grow(Math.max(256, 2 * (highest + 1)));
    const cosine = new Float32Array(positions.length * width);
    const sine = new Float32Array(positions.length * width);
    positions.forEach((position, row) => {
      const from = position * width;
      cosine.set(this.cosine.subarray(from, from + width), row * width);
      sine.set(this.sine.subarray(from, from + width), row * width);
    });
    return { cosine, sine };
  }

  private grow(positions: number): void {
    const width = this.frequencies.length;
    const { attentionFactor } = this;
    this.cosine = new Float32Array(positions * width);
    this.sine = new Float32Array(positions * width);
    for (let position = 0; position < positions; position++) {
      for (let pair = 0; pair < width; pair++) {
        const angle = Math.fround(position * this.frequencies[pair]!);
        this.cosine[position * width + pair] = attentionFactor * Math.cos(angle);
        this.sine[position * width + pair] = attentionFactor * Math.sin(angle);
      }
    }
  }
}

/** The angles that a configuration asks for. */
export function createRotary(configuration: {
  readonly headSize: number;
  readonly rotaryBase: number;
  readonly rotaryScaling: RotaryScaling;
}): RotaryTable {
  const { headSize, rotaryBase, rotaryScaling } = configuration;
  return new RotaryTable(
    rotaryFrequencies(headSize, rotaryBase, rotaryScaling),
    attentionFactorOf(rotaryScaling),
  );
}
