/** Mean accepted length of a stream in slices of time, pooled by steps, for whoever looks at a page. */
import { RecentMap } from './recent-map.js';
import type { Stream } from './request-record.js';
import type { Band } from './baseline-cell.js';
import type { StreamState } from './page-state.js';

type Slice = StreamState['history'][number];

interface OpenSlice {
  readonly atMs: number;
  steps: number;
  accepted: number;
  requests: number;
  band: Band | undefined;
}

const sliceMs = 60_000;
const mostSlices = 120;
const mostStreams = 64;

export class StreamHistory {
  private readonly streams = new RecentMap<OpenSlice[]>(mostStreams);

  add(
    { model, route }: Stream,
    atMs: number,
    counts: { readonly steps: number; readonly accepted: number } | undefined,
    band: Band | undefined,
  ): void {
    const slices = this.streams.getOrCreate(JSON.stringify([model, route]), () => []);
    const begin = Math.floor(atMs / sliceMs) * sliceMs;
    // Requests end nearly in order, so the slice is one of the last.
    let place = slices.length;
    while (place > 0 && slices[place - 1]!.atMs > begin) place -= 1;
    let slice = slices[place - 1];
    if (slice?.atMs !== begin) {
      slice = { atMs: begin, steps: 0, accepted: 0, requests: 0, band };
      slices.splice(place, 0, slice);
      if (slices.length > mostSlices) slices.shift();
    }
    slice.requests += 1;
    slice.steps += counts?.steps ?? 0;
    slice.accepted += counts?.accepted ?? 0;
    slice.band = band ?? slice.band;
  }

  list(): readonly (Stream & { readonly history: readonly Slice[] })[] {
    return [...this.streams.entries()].map(([key, slices]) => {
      const [model, route] = JSON.parse(key) as readonly [string, string];
      return { model, route, history: slices.map(closeSlice) };
    });
  }
}

function closeSlice({ atMs, steps, accepted, requests, band }: OpenSlice): Slice {
  return {
    ...{ atMs, requests, acceptedLength: steps === 0 ? null : 1 + accepted / steps },
    ...{ low: band?.low ?? null, high: band?.high ?? null },
  };
}
