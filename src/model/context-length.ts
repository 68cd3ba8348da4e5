/**
 * The context length, and how far back each layer looks. With a window of w, position t sees positions above t - w.
 * If all layers have the same window it is a mask; layers with and without one would need two masks, so the context
 * then ends at the window. It also ends where longer sequences would need cached keys rotated again
 * (rotary/rotary.ts).
 */
import type { RotaryScaling } from './rotary/rotary.js';

export interface ContextFields {
  readonly num_hidden_layers: number;
  readonly max_position_embeddings?: number | null | undefined;
  /** Used by some Llama, Vicuna and Medusa configurations. */
  readonly max_sequence_length?: number | null | undefined;
  readonly sliding_window?: number | null | undefined;
  readonly use_sliding_window?: boolean | null | undefined;
  readonly max_window_layers?: number | null | undefined;
  readonly layer_types?: readonly string[] | null | undefined;
}

export interface LayerWindow {
  readonly length: number;
  readonly layers: readonly boolean[]; // [layer]
}

export interface ContextReach {
  readonly contextLength: number;
  readonly contextOrigin: string;
  /** Visible positions, including its own, if fewer than the context. */
  readonly slidingWindow: number | undefined;
  readonly notes: readonly string[];
}

export function readContext(
  fields: ContextFields,
  positions: number,
  scaling: RotaryScaling,
  window: LayerWindow | undefined,
): ContextReach {
  const { contextLength, contextOrigin } = readPositions(fields, positions, scaling);
  const notes = [...describeScaling(scaling, contextLength)];
  if (window === undefined || window.length >= contextLength || !window.layers.includes(true)) {
    return { contextLength, contextOrigin, slidingWindow: undefined, notes };
  }
  if (window.layers.every(Boolean)) {
    return { contextLength, contextOrigin, slidingWindow: window.length, notes };
  }
  const windowed = window.layers.filter(Boolean).length;
  const origin = `the sliding window of ${windowed} of its ${window.layers.length} layers`;
  return {
    contextLength: window.length,
    contextOrigin: origin,
    slidingWindow: undefined,
    notes: [
      ...notes,
      `The context ends at ${window.length} of ${contextLength} positions, ${origin}: beyond it layers with and without a window are not supported.`,
    ],
  };
}

export function findPositions(fields: ContextFields): number | undefined {
  return fields.max_position_embeddings ?? fields.max_sequence_length ?? undefined;
}

function readPositions(
  fields: ContextFields,
  positions: number,
  scaling: RotaryScaling,
): Pick<ContextReach, 'contextLength' | 'contextOrigin'> {
  const isOld = (fields.max_position_embeddings ?? undefined) === undefined;
  const plain = {
    contextLength: positions,
    contextOrigin: isOld ? 'max_sequence_length' : 'max_position_embeddings',
  };
  const { max_sequence_length: scaled } = fields;
  // Long Vicunas keep the length before scaling in one and after scaling in the other.
  if (scaling.kind === 'linear' && scaled != null && scaled > positions) {
    return { contextLength: scaled, contextOrigin: 'max_sequence_length' };
  }
  if (scaling.kind === 'yarn') {
    const stretched = Math.floor(scaling.originalContext * scaling.factor);
    if (stretched > positions) {
      return {
        contextLength: stretched,
        contextOrigin: 'original_max_position_embeddings times the factor of yarn',
      };
    }
  }
  if (scaling.kind === 'longrope' && scaling.originalContext < positions) {
    return {
      contextLength: scaling.originalContext,
      contextOrigin: 'original_max_position_embeddings, where longrope changes its factors',
    };
  }
  return plain;
}

function describeScaling(scaling: RotaryScaling, contextLength: number): readonly string[] {
  if (scaling.kind === 'dynamic') {
    return [
      `The context ends at ${contextLength} positions: beyond them dynamic scaling turns what was read before, which is not supported.`,
    ];
  }
  if (scaling.kind === 'longrope') {
    return [
      `The context ends at ${contextLength} positions: longrope's factors for longer sequences are not supported.`,
    ];
  }
  return [];
}

/** Larger counts are refused before anything is built. */
const maxLayers = 10_000;

/** From `layer_types`, else by family. */
export function windowedLayers(
  { layer_types: types, num_hidden_layers: count }: ContextFields,
  byDefault: (layer: number) => boolean,
): readonly boolean[] {
  return Array.from({ length: Math.min(count, maxLayers) }, (_, layer) =>
    types == null ? byDefault(layer) : types[layer] === 'sliding_attention',
  );
}
