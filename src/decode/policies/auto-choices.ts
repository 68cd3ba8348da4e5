/** What `auto` chooses from: plain steps, lookups in the text, chains of several lengths, and a small tree. */
import type { Drafter } from '../../draft/drafter.js';
import type { ResolvedPolicy } from '../../draft/tree/policy.js';
import type { StepKind } from './step-costs.js';

export interface AutoChoice {
  readonly policy: ResolvedPolicy | undefined;
  readonly kind: 'plain' | 'lookup' | 'chain' | 'tree';
  /** Draft levels, and rows that the target reads. */
  readonly levels: number;
  readonly rows: number;
  readonly step: StepKind;
}

export type DrafterTraits = Pick<
  Drafter,
  'maximumDepth' | 'vocabularySize' | 'isChainOnly' | 'parameterCount' | 'lookups'
>;

const defaultLengths = [1, 2, 3, 4];
const weightlessLengths = [...defaultLengths, 6, 8];
export const longestLookup = 8;
const smallTree = { kind: 'dynamic', total: 8, depth: 2, topK: 2 } as const;

/** The plain step is the first. */
export function listChoices(drafter: DrafterTraits): readonly AutoChoice[] {
  const { maximumDepth, vocabularySize, isChainOnly = false, parameterCount, lookups: own = [] } = drafter;
  const isWeightless = parameterCount === 0;
  const chainOf = (kind: 'lookup' | 'chain', levels: number): AutoChoice => ({
    ...{ policy: { kind: 'chain', length: levels }, kind, levels, rows: levels + 1 },
    step: isWeightless || kind === 'lookup' ? 'read' : 'chain',
  });
  const plain: AutoChoice = { policy: undefined, kind: 'plain', levels: 0, rows: 1, step: 'read' };
  const lookups = own.length > 0 ? weightlessLengths.map((levels) => chainOf('lookup', levels)) : [];
  const chains = (isWeightless ? weightlessLengths : defaultLengths)
    .filter((levels) => levels <= maximumDepth)
    .map((levels) => chainOf('chain', levels));
  const { total: rows, depth, topK } = smallTree;
  const levels = depth + 1;
  const hasTree = !isChainOnly && levels <= maximumDepth && topK <= vocabularySize;
  const tree: AutoChoice = { policy: smallTree, kind: 'tree', levels, rows, step: 'tree' };
  return [plain, ...lookups, ...chains, ...(hasTree ? [tree] : [])];
}
