/** Mean accepted length of a stream in slices of time, for the page. */
import type { Stream } from '../observation.js';
import { RecentMap } from '../state/recent-map.js';

export interface Slice {
  readonly atMs: number;
  readonly acceptedLength: number | null;
  readonly requests: number;
}

interface OpenSlice {
  readonly atMs: number;
  steps: number;
  accepted: number;
  requests: number;
}

const sliceMs = 60_000;
const maxSlices = 120;
const maxStreams = 64;

export class StreamHistory {
  private readonly streams = new RecentMap<OpenSlice[]>(maxStreams);

  add(
    { model, route }: Stream,
    atMs: number,
    counts: { readonly steps: number; readonly accepted: number } | null,
  ): void {
    const slices = this.streams.getOrCreate(JSON.stringify([model, route]), () => []);
    const begin = Math.floor(atMs / sliceMs) * sliceMs;
    // Requests end nearly in order, so the slice is one of the last.
    let place = slices.length;
    while (place > 0 && slices[place - 1]!.atMs > begin) place -= 1;
    let slice = slices[place - 1];
    if (slice?.atMs !== begin) {
      slice = { atMs: begin, steps: 0, accepted: 0, requests: 0 };
      slices.splice(place, 0, slice);
      if (slices.length > maxSlices) slices.shift();
    }
    slice.requests += 1;
    slice.steps += counts?.steps ?? 0;
    slice.accepted += counts?.accepted ?? 0;
  }

  list(): readonly (Stream & { readonly history: readonly Slice[] })[] {
    return [...this.streams.entries()].map(([key, slices]) => {
      const [model, route] = JSON.parse(key) as readonly [string, string];
      const history = slices.map(({ atMs, requests, steps, accepted }) => ({
        atMs,
        requests,
        acceptedLength: steps === 0 ? null : 1 + accepted / steps,
      }));
      return { model, route, history };
    });
  }
}
