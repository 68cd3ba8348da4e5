/**
 * Sequences that decode together on a simulated clock, as in an engine: one drafting pass, then one pass of the target over all
 * sequences, padded to the longest draft. Times are exact, so policies can be compared.
 */
import type { Random } from '../../../src/core/random.js';
import type { DraftChoice, PolicyChooser } from '../../../src/decode/policies/policy-chooser.js';

export interface BatchWorld {
  readonly lanes: number;
  /** Acceptance of a draft token behind accepted ones, for a sequence at a step. */
  readonly rate: (lane: number, step: number) => number;
  readonly verifyMs: (lanes: number, rows: number) => number;
  readonly draftMs: (lanes: number, levels: number) => number;
  /** The share of steps in which the drafter has something to propose; 1 unless given. */
  readonly proposals?: number;
  /** For the first draft behind plain steps. */
  readonly catchUpMs?: number;
  /** For the first two steps with a number of rows, which are reported as cold. */
  readonly coldMs?: number;
  /** Steps of a request; one request unless given. */
  readonly requestSteps?: number;
  /** A factor on the time of a pass; 1 unless given. */
  readonly pace?: (step: number) => number;
}

export interface BatchRun {
  /** Tokens of all sequences for each millisecond. */
  readonly speed: number;
  /** [step] levels that were drafted; 0 is plain, -1 a tree. */
  readonly choices: readonly number[];
}

const levelsOf = ({ policy }: DraftChoice): number =>
  policy === undefined ? 0 : policy.kind === 'chain' ? policy.length : -1;

const treeLevels = 3;

export function runBatch(chooser: PolicyChooser, world: BatchWorld, steps: number, random: Random): BatchRun {
  const { lanes, proposals = 1, catchUpMs = 0, coldMs = 0, pace = () => 1 } = world;
  const choices: number[] = [];
  const stepsWith = new Map<number, number>(); // [rows]
  let [tokens, spentMs, isBehind] = [0, 0, false];
  let chosen = Array.from({ length: lanes }, () => chooser.choose());
  for (let step = 0; step < steps; step++) {
    if (step % (world.requestSteps ?? Infinity) === 0) chooser.begin?.(0);
    const results = chosen.map((choice, lane) => {
      const levels = levelsOf(choice);
      const depth = random.next() < proposals ? (levels < 0 ? treeLevels : levels) : 0;
      const proposed = depth > 0 && choice.policy?.kind === 'dynamic' ? choice.policy.total - 1 : depth;
      let accepted = 0;
      while (accepted < depth && random.next() < world.rate(lane, step)) accepted += 1;
      return { proposed, accepted, depth };
    });
    const longest = Math.max(...chosen.map((choice) => Math.abs(levelsOf(choice))));
    const drafting = chosen.filter(({ policy }) => policy !== undefined).length;
    const rows = 1 + Math.max(...results.map(({ proposed }) => proposed));
    const reading = drafting > 0 && isBehind ? catchUpMs : 0;
    const draftMs = drafting === 0 ? 0 : (world.draftMs(drafting, longest) + reading) * pace(step);
    stepsWith.set(rows, (stepsWith.get(rows) ?? 0) + 1);
    const isCold = coldMs > 0 && stepsWith.get(rows)! <= 2;
    const verifyMs = world.verifyMs(lanes, rows) * pace(step) + (isCold ? coldMs : 0);
    isBehind = drafting === 0;
    choices.push(levelsOf(chosen[0]!));
    spentMs += draftMs + verifyMs;
    const batch = { pass: step, batchSize: lanes, rows, stepMs: draftMs + verifyMs };
    chosen = chosen.map((choice, lane) => {
      const { proposed, accepted, depth } = results[lane]!;
      tokens += accepted + 1;
      const ownDraftMs = choice.policy === undefined ? 0 : draftMs;
      const waitMs = draftMs - ownDraftMs; // whoever does not draft waits for those who do
      chooser.learn(choice, {
        proposed,
        accepted,
        depth,
        draftMs: ownDraftMs,
        verifyMs: verifyMs + waitMs,
        batch,
        isCold,
      });
      return chooser.choose();
    });
  }
  return { speed: tokens / spentMs, choices };
}
