/**
 * Acceptance of a generation's verification steps. Every ratio is a ratio of sums over steps, so pooling records
 * equals summarizing their steps together.
 * A record without steps (the prefill's token ended the answer) has mean accepted length 1 and acceptance rate 0;
 * pooled with others it weighs nothing.
 */
export interface StepRecord {
  /** Nodes of the tree without its root. */
  readonly proposed: number;
  readonly accepted: number;
  /** Deepest level proposed; equals `proposed` for a chain. */
  readonly depth: number;
}

export interface AcceptanceRecord {
  readonly steps: number;
  readonly proposed: number;
  readonly accepted: number;
  /** Tokens in the answer; fewer than accepted + steps if the last step was cut. */
  readonly emitted: number;
  /** Per step, accepted draft tokens + 1. */
  readonly acceptedLengths: readonly number[];
  /** [d] Share of all steps whose accepted path reached depth d + 1. */
  readonly acceptanceByDepth: readonly number[];
  /** [a] Number of steps that accepted a draft tokens. */
  readonly histogram: readonly number[];
  readonly meanAcceptedLength: number;
  /** accepted / proposed. Trees propose more nodes, so never compare chains and trees by it. */
  readonly acceptanceRate: number;
}

export function summariseAcceptance(steps: readonly StepRecord[], emitted: number): AcceptanceRecord {
  const histogram = [0];
  let proposed = 0;
  for (const step of steps) {
    proposed += step.proposed;
    while (histogram.length <= step.depth) histogram.push(0);
    histogram[step.accepted]! += 1;
  }
  return deriveRecord({
    proposed,
    emitted,
    acceptedLengths: steps.map((step) => step.accepted + 1),
    histogram: steps.length === 0 ? [] : histogram,
  });
}

/** Over the steps of all records: long answers weigh more. */
export function poolAcceptance(records: readonly AcceptanceRecord[]): AcceptanceRecord {
  const histogram = poolHistograms(records.map((record) => record.histogram));
  let proposed = 0;
  let emitted = 0;
  for (const record of records) {
    proposed += record.proposed;
    emitted += record.emitted;
  }
  const acceptedLengths = records.flatMap((record) => record.acceptedLengths);
  return deriveRecord({ proposed, emitted, acceptedLengths, histogram });
}

export function poolHistograms(histograms: readonly (readonly number[])[]): number[] {
  const pooled: number[] = [];
  for (const histogram of histograms) {
    for (const [accepted, count] of histogram.entries()) pooled[accepted] = (pooled[accepted] ?? 0) + count;
  }
  return pooled;
}

/**
 * The unweighted mean over requests, not the pooled mean accepted length. Requests without steps are left out; 1 if
 * none is left.
 */
export function meanOfRequestMeans(records: readonly AcceptanceRecord[]): number {
  const stepped = records.filter((record) => record.steps > 0);
  if (stepped.length === 0) return 1;
  return stepped.reduce((sum, record) => sum + record.meanAcceptedLength, 0) / stepped.length;
}

function deriveRecord(
  counts: Pick<AcceptanceRecord, 'proposed' | 'emitted' | 'acceptedLengths' | 'histogram'>,
): AcceptanceRecord {
  const { proposed, histogram } = counts;
  const steps = counts.acceptedLengths.length;
  const acceptanceByDepth: number[] = [];
  let accepted = 0;
  let reached = 0;
  for (let depth = histogram.length - 1; depth >= 1; depth--) {
    accepted += depth * histogram[depth]!;
    reached += histogram[depth]!;
    acceptanceByDepth[depth - 1] = reached / steps;
  }
  return {
    ...counts,
    steps,
    accepted,
    acceptanceByDepth,
    meanAcceptedLength: steps === 0 ? 1 : 1 + accepted / steps,
    acceptanceRate: proposed === 0 ? 0 : accepted / proposed,
  };
}
