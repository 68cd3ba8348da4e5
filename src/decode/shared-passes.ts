/**
 * Passes of several sequences: whenever all sequences that act wait for one, equal programs run as one. Sequences that
 * share a prefix have passes of their own, which read it once (model/cache/cache-pool.ts).
 */
import {
  type LaneProgram,
  type LaneRun,
  type PassScheduler,
  runDirectly,
} from '../model/lanes/lane-program.js';
import type { MixedValues } from '../runtime/program.js';

interface Ask {
  readonly program: LaneProgram;
  readonly run: LaneRun;
  readonly outputs: readonly string[];
  readonly resolve: (values: MixedValues) => void;
  readonly reject: (cause: unknown) => void;
}

export class SharedPasses implements PassScheduler {
  private asks: Ask[] = [];
  private acting = 0;
  private isRunning = false;

  constructor(private readonly countSequences: () => number) {}

  get isAlone(): boolean {
    return this.countSequences() === 1;
  }

  run(program: LaneProgram, run: LaneRun, outputs: readonly string[]): Promise<MixedValues> {
    if (this.acting <= 1) return runDirectly.run(program, run, outputs);
    return new Promise((resolve, reject) => {
      this.asks.push({ program, run, outputs, resolve, reject });
      this.runIfAllWait();
    });
  }

  /** Acts for all turns at once and returns what they made of it, without those that failed. */
  async forEach<Turn, Next>(
    turns: readonly Turn[],
    act: (turn: Turn) => Promise<Next>,
    onFailure: (turn: Turn, cause: unknown) => void,
  ): Promise<readonly Next[]> {
    this.acting = turns.length;
    const results = new Map<Turn, Next>();
    const actFor = async (turn: Turn): Promise<void> => {
      try {
        results.set(turn, await act(turn));
      } catch (cause) {
        onFailure(turn, cause);
      } finally {
        this.acting -= 1;
        this.runIfAllWait();
      }
    };
    if (turns.length === 1) await actFor(turns[0]!);
    else await Promise.all(turns.map(actFor));
    return turns.flatMap((turn) => (results.has(turn) ? [results.get(turn)!] : []));
  }

  private runIfAllWait(): void {
    if (this.isRunning || this.asks.length === 0 || this.asks.length < this.acting) return;
    const asks = this.asks.splice(0);
    this.isRunning = true;
    void runGroups(groupAsks(asks)).finally(() => {
      this.isRunning = false;
      this.runIfAllWait();
    });
  }
}

async function runGroups(groups: readonly (readonly Ask[])[]): Promise<void> {
  for (const group of groups) await runTogether(group);
}

async function runTogether(group: readonly Ask[]): Promise<void> {
  const [{ program }] = group as [Ask];
  try {
    const results = await program.run(
      group.map(({ run }) => run),
      group.map(({ outputs }) => outputs),
    );
    group.forEach(({ resolve }, index) => {
      resolve(results[index]!);
    });
  } catch (cause) {
    // Retried one by one, so that one sequence's failure does not affect the others.
    if (group.length === 1) group[0]!.reject(cause);
    else for (const ask of group) await runTogether([ask]);
  }
}

function groupAsks(asks: readonly Ask[]): readonly (readonly Ask[])[] {
  const groups: Ask[][] = [];
  for (const ask of asks) {
    const prefix = ask.program.prefixOf(ask.run);
    const group = groups.find(
      ([first]) => first!.program === ask.program && first!.program.prefixOf(first!.run) === prefix,
    );
    if (group === undefined) groups.push([ask]);
    else group.push(ask);
  }
  return groups;
}
