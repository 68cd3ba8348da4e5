/** A worker of a benchmark, a process or a thread: opens target and drafters once. */
import type { BenchmarkRunner, BenchmarkUnit } from '../measure/benchmark.js';
import { openRuntime } from '../runtime/create-runtime.js';
import type { Runtime } from '../runtime/program.js';
import { type BenchAnswer, type BenchSetup, openBench } from './bench-units.js';
import { type ProcessHooks, type ProcessWork, serveUnits, type UnitPart } from './unit.js';

class BenchProcess implements ProcessWork {
  private runtime: Runtime | undefined;
  private opened: Promise<BenchmarkRunner> | undefined;

  constructor(
    private readonly setup: BenchSetup,
    private readonly onNotice: (message: string) => void,
  ) {}

  async prepare(): Promise<void> {
    await this.open();
  }

  async run(input: unknown, _done: ReadonlySet<string>, hooks: ProcessHooks): Promise<void> {
    const unit = input as BenchmarkUnit;
    const runner = await this.open();
    const measured = await runner.run(unit, hooks.onProgress);
    const data = measured as unknown as UnitPart['data'];
    hooks.onPart({ key: `${unit.set}/${unit.start}`, data, steps: [], timing: null });
  }

  async ask(): Promise<BenchAnswer> {
    const { units, total } = await this.open();
    return { units, total };
  }

  async dispose(): Promise<void> {
    await this.runtime?.dispose();
  }

  private open(): Promise<BenchmarkRunner> {
    const { plan, device } = this.setup;
    return (this.opened ??= openRuntime(device).then((runtime) => {
      this.runtime = runtime;
      return openBench(plan, runtime, { onNotice: this.onNotice });
    }));
  }
}

serveUnits((setup, onNotice) => new BenchProcess(setup as BenchSetup, onNotice));
