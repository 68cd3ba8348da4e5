/**
 * Every tensor of a drafter must be read or known to be unneeded. A head without one of its parts would still draft,
 * only worse.
 */
import type { Problem } from '../../checkpoint/open-checkpoint.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { quote } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { listRead } from '../../checkpoint/weight-recipe.js';
import { misfit } from './checks.js';

/** Buffers that implementations compute. */
const recomputed = [/(^|\.)rotary_emb\.inv_freq$/];

export function listUnread(
  { tensors }: Pick<Checkpoint, 'tensors'>,
  recipes: readonly WeightRecipe[],
  unneeded: readonly RegExp[] = [],
): readonly string[] {
  const read = listRead(recipes);
  const patterns = [...recomputed, ...unneeded];
  return [...tensors.keys()].filter((name) => !read.has(name) && !patterns.some((known) => known.test(name)));
}

export function unreadProblems(unread: readonly string[]): readonly Problem[] {
  if (unread.length === 0) return [];
  return [{ problem: `The drafter ${describeUnread(unread)}.`, remedy: unreadHint }];
}

export function refuseUnread(folder: string, unread: readonly string[]): void {
  if (unread.length > 0) throw misfit(folder, describeUnread(unread), unreadHint);
}

const shown = 3;

function describeUnread(unread: readonly string[]): string {
  const named = unread.slice(0, shown).map(quote).join(', ');
  const more = unread.length - shown;
  return `holds ${named}${more > 0 ? ` and ${more} more` : ''}, which nothing here reads`;
}

const unreadHint =
  'Without them it would draft worse than it can, in silence. docs/published-checkpoints.md lists the layouts that are supported.';
