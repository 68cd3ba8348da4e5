/** A drafter that fails as often as it is told to, for rehearsals: the target rejects what is wrong, so answers stay as they are. */
import { MistletoeError } from '../core/errors.js';
import type { Random } from '../core/random.js';
import type { Drafter, DraftSession } from '../draft/drafter.js';
import type { PreparedDrafts } from '../draft/programs/program-drafts.js';

export interface SpoiledDrafter extends Drafter {
  /** The share of draft tokens that are replaced by others; may be changed between steps. */
  spoiledShare: number;
}

/** Chains alone, at temperature 0: there a replaced token is a rejected one, unless the drafter was wrong and the other is right. */
export function spoilDrafter(drafter: Drafter, random: Random): SpoiledDrafter {
  return new Spoiled(drafter, random);
}

class Spoiled implements SpoiledDrafter {
  spoiledShare = 0;
  readonly system: string;
  readonly name: string;
  readonly reads: Drafter['reads'];
  readonly maximumDepth: number;
  readonly vocabularySize: number;
  readonly isChainOnly = true;
  readonly taps: readonly number[];
  readonly parameterCount: number;
  /** What it drafts no longer follows from its weights. */
  readonly graph = undefined;

  constructor(
    private readonly inner: Drafter,
    private readonly random: Random,
  ) {
    this.system = inner.system;
    this.name = inner.name;
    this.reads = inner.reads;
    this.maximumDepth = inner.maximumDepth;
    this.vocabularySize = inner.vocabularySize;
    this.taps = inner.taps;
    this.parameterCount = inner.parameterCount;
  }

  prepare({ chains = [] }: PreparedDrafts = {}): Promise<void> {
    return this.inner.prepare({ chains });
  }

  startSession(...scheduler: Parameters<Drafter['startSession']>): DraftSession {
    const session = this.inner.startSession(...scheduler);
    if (session.draftChain === undefined) {
      session.close();
      throw new MistletoeError('usage', `${this.name} drafts no chains in one go, which a rehearsal needs.`, {
        hint: 'Rehearse with another drafter, for example eagle3 or ngram.',
      });
    }
    return {
      get room() {
        return session.room;
      },
      isDeterministic: session.isDeterministic === true,
      observe: (verified) => {
        session.observe(verified);
      },
      catchUp: async () => {
        await session.catchUp?.();
      },
      expand: (draft, nodes, want) => session.expand(draft, nodes, want),
      draftChain: async (length) => {
        const tokens = await session.draftChain!(length);
        return tokens.map((token) => (this.random.next() < this.spoiledShare ? this.replace(token) : token));
      },
      close: () => {
        session.close();
      },
    };
  }

  private replace(token: number): number {
    const { vocabularySize, random } = this;
    return (token + 1 + random.nextInteger(vocabularySize - 1)) % vocabularySize;
  }
}
