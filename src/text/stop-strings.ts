/**
 * Ends a text at the first stop string that completes, wherever the pieces of the text happen to be cut. Of stops that
 * complete with the same character the longest counts. The stop itself is not emitted, and neither is any tail that
 * could still become one.
 */
import { MistletoeError } from '../core/errors.js';

export interface StopResult {
  readonly emit: string;
  readonly stopped: boolean;
}

export interface StopScanner {
  push(text: string): StopResult;
  /** The tail that was held back and turned out not to be a stop. */
  finish(): string;
  matched(): string | undefined;
}

export function createStopScanner(stops: readonly string[]): StopScanner {
  if (stops.includes('')) {
    throw new MistletoeError('text', 'A stop string is empty; it would end every text before it begins.', {
      hint: 'Leave the stop strings out, or give each at least one character.',
    });
  }
  let held = '';
  let match: string | undefined;

  return {
    push(text) {
      if (match !== undefined) return { emit: '', stopped: true };
      held += text;
      const found = findFirstStop(held, stops);
      if (found !== undefined) {
        const emit = held.slice(0, found.start);
        match = found.stop;
        held = '';
        return { emit, stopped: true };
      }
      const safe = held.length - openTailLength(held, stops);
      const emit = held.slice(0, safe);
      held = held.slice(safe);
      return { emit, stopped: false };
    },
    finish() {
      const rest = held;
      held = '';
      return rest;
    },
    matched: () => match,
  };
}

function findFirstStop(
  text: string,
  stops: readonly string[],
): { readonly start: number; readonly stop: string } | undefined {
  let best: { start: number; end: number; stop: string } | undefined;
  for (const stop of stops) {
    const start = text.indexOf(stop);
    if (start < 0) continue;
    const end = start + stop.length;
    if (best === undefined || end < best.end || (end === best.end && start < best.start)) {
      best = { start, end, stop };
    }
  }
  return best;
}

function openTailLength(text: string, stops: readonly string[]): number {
  let longest = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(stop.slice(0, length))) longest = length;
    }
  }
  return longest;
}
