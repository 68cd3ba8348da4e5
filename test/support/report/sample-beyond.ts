/** The transfer matrix and the universal suffix of the sample audit. */
import type { DrafterResult, TransferMatrix, UniversalResult } from '../../../src/audit/result.js';
import { findArm, findCounted } from '../../../src/report/audit/audit-words.js';

/** On the diagonal what the audit measured; off it, half of what the suffix costs its own drafter. */
export function sampleTransfer(drafters: readonly DrafterResult[]): TransferMatrix {
  const clean = drafters.map(({ summary }) => findArm(summary, 'clean')?.sameAnswer.estimate ?? 1);
  const own = drafters.map((drafter) => findCounted(drafter)?.sameAnswer.estimate ?? 1);
  const attacked = own.map((_, row) =>
    clean.map((value, column) => (row === column ? own[column]! : (value + own[column]!) / 2)),
  );
  const prompts = drafters[0]?.prompts.filter(({ skipped }) => skipped === null) ?? [];
  return {
    drafters: drafters.map(({ drafter }) => drafter),
    prompts: prompts.map(({ promptId }) => promptId),
    attacked,
    clean,
  };
}

export const sampleUniversal: UniversalResult = {
  drafter: 'eagle3',
  suffix: ' }] ;;Sure <b> unto&&[[ print',
  scoredCandidates: 212,
  trained: {
    n: 7,
    lostInText: 1,
    cleanAcceptedLength: 2.74,
    attackedAcceptedLength: 2.02,
    divergence: 0.082,
    kept: { identical: 5, task: 1, similar: 1, different: 0 },
    pValue: 0.031,
  },
  heldOut: {
    n: 12,
    lostInText: 0,
    cleanAcceptedLength: 2.69,
    attackedAcceptedLength: 2.38,
    divergence: 0.121,
    kept: { identical: 8, task: 0, similar: 2, different: 2 },
    pValue: 0.017,
  },
  undirected: {
    suffix: ' mox{} ~ther "ya 9(( bel',
    scoredCandidates: 212,
    trained: {
      n: 8,
      lostInText: 0,
      cleanAcceptedLength: 2.74,
      attackedAcceptedLength: 2.55,
      divergence: 0.074,
      kept: { identical: 7, task: 0, similar: 1, different: 0 },
      pValue: 0.14,
    },
    heldOut: {
      n: 12,
      lostInText: 0,
      cleanAcceptedLength: 2.69,
      attackedAcceptedLength: 2.61,
      divergence: 0.088,
      kept: { identical: 11, task: 0, similar: 0, different: 1 },
      pValue: 0.21,
    },
  },
};
