/** Made-up requests, benign and attacked, for tests. */
import type { Random } from '../../../src/core/random.js';
import { noNumbers } from '../../../src/guard/judge/verdict.js';
import type { Verdict, VerdictName } from '../../../src/guard/judge/verdict.js';
import type { Observation } from '../../../src/guard/observation.js';
import { type LogEntry, readLines } from '../../../src/guard/records/record-log.js';

export const draftLength = 5;

/** The acceptance rate of a request's draft tokens, and its steps. */
export interface Kind {
  readonly rate: number;
  readonly steps: number;
}

/** Code, chat and prose; each request with a rate of its own. Mean accepted lengths from 1.4 to above 4. */
export function drawBenign(random: Random): Kind {
  const kind = random.next();
  const spread = (random.next() + random.next() + random.next()) / 3 - 0.5; // -0.5 to 0.5, mostly near 0
  const rate = kind < 0.3 ? 0.82 + 0.2 * spread : kind < 0.7 ? 0.62 + 0.3 * spread : 0.42 + 0.3 * spread;
  return { rate, steps: 20 + Math.floor(-90 * Math.log(1 - random.next())) };
}

export function drawSteps(random: Random, { rate, steps }: Kind): number[] {
  let local = rate;
  return Array.from({ length: steps }, (_, step) => {
    // Passages of some steps are easier or harder than the request as a whole.
    if (step % 12 === 0) local = Math.min(0.97, Math.max(0.02, rate + 0.2 * (random.next() - 0.5)));
    let accepted = 0;
    while (accepted < draftLength && random.next() < local) accepted += 1;
    return accepted;
  });
}

/** The rate at which chains of five have the given mean accepted length. */
export function rateFor(meanAcceptedLength: number): number {
  let low = 0;
  let high = 1;
  for (let round = 0; round < 50; round++) {
    const rate = (low + high) / 2;
    let mean = 1;
    for (let depth = 1; depth <= draftLength; depth++) mean += rate ** depth;
    if (mean < meanAcceptedLength) low = rate;
    else high = rate;
  }
  return low;
}

export function createRecord(
  perStepAccepted: readonly number[],
  more: Partial<Observation> & { readonly id: string },
): Observation {
  const accepted = perStepAccepted.reduce((sum, count) => sum + count, 0);
  const histogram = Array.from({ length: draftLength + 1 }, () => 0);
  for (const count of perStepAccepted) histogram[count]! += 1;
  return {
    model: 'm',
    route: '/v1/chat/completions',
    endedMs: 0,
    engine: 'vllm',
    tenant: 'someone',
    status: 200,
    ending: 'complete',
    upstream: 'speculative',
    isStream: true,
    promptTokens: 100,
    completionTokens: accepted + perStepAccepted.length,
    firstByteMs: 50,
    totalMs: 1000,
    speculation: {
      evidence: 'reported',
      steps: perStepAccepted.length,
      accepted,
      proposed: perStepAccepted.length * draftLength,
      histogram,
      perStepAccepted,
      perStepProposed: perStepAccepted.map(() => draftLength),
      draftLength,
      isTree: false,
    },
    ...more,
  };
}

export function createVerdict(name: VerdictName): Verdict {
  return { name, numbers: noNumbers, reason: `A ${name} request.` };
}

/** All entries of a folder, oldest first. Lines that are not entries, such as one cut by a crash, are skipped. */
export async function* readRecords(folder: string): AsyncGenerator<LogEntry> {
  for await (const line of readLines(folder)) {
    try {
      yield JSON.parse(line) as LogEntry;
    } catch {
      continue;
    }
  }
}
