/** Sessions of drafters that score levels: what they grow trees from. */
import type { Drafter, DraftSession } from '../../src/draft/drafter.js';
import { draftByLevels, type LevelPrograms } from '../../src/draft/tree/grow-tree.js';

export const levelsIn = (session: DraftSession): LevelPrograms | undefined =>
  (session as DraftSession & { readonly levels?: LevelPrograms }).levels;

/** The same drafter, one level in a pass. */
export function withoutShortcuts(drafter: Drafter): Drafter {
  return withLevels(drafter, ({ expand }) => ({ expand }));
}

export function withLevels(drafter: Drafter, change: (levels: LevelPrograms) => LevelPrograms): Drafter {
  const startSession: Drafter['startSession'] = (scheduler) => {
    const session = drafter.startSession(scheduler);
    const changed = draftByLevels(change(levelsIn(session)!));
    return Object.assign(Object.create(session) as DraftSession, changed);
  };
  return Object.create(drafter, { startSession: { value: startSession } }) as Drafter;
}
