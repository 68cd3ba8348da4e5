/** Counts the passes of a drafter. */
import type { Drafter, DraftSession } from '../draft/drafter.js';

export interface CountedSession {
  /** Its close() does nothing: the inner session belongs to whoever opened it. */
  readonly session: DraftSession;
  readonly passes: number;
}

export function countPasses(inner: DraftSession, { parameterCount }: Drafter): CountedSession {
  const perLevel = parameterCount > 0 ? 1 : 0; // looking something up is no pass of anything
  let passes = 0;
  const session: DraftSession = {
    close: () => undefined,
    // Differs between drafters that take turns (rotating-drafter.ts).
    get isDeterministic() {
      return inner.isDeterministic === true;
    },
    get room() {
      return inner.room;
    },
    get siblings() {
      return inner.siblings;
    },
    observe: (verified) => {
      inner.observe(verified);
    },
    catchUp: async () => {
      await inner.catchUp?.();
    },
    expand: (draft, nodes, want) => {
      passes += perLevel;
      return inner.expand(draft, nodes, want);
    },
    ...(inner.draftChain === undefined
      ? {}
      : {
          draftChain: (length) => {
            passes += perLevel * length;
            return inner.draftChain!(length);
          },
        }),
    ...(inner.drawChain === undefined
      ? {}
      : {
          drawChain: (uniforms, sampling) => {
            passes += perLevel * uniforms.length;
            return inner.drawChain!(uniforms, sampling);
          },
        }),
    ...(inner.draftTree === undefined
      ? {}
      : {
          draftTree: (size) => {
            passes += perLevel * (size.depth + 1);
            return inner.draftTree!(size);
          },
        }),
  };
  return {
    session,
    get passes() {
      return passes;
    },
  };
}
