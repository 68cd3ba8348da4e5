import type { Recording } from '../driver/device.js';

/** Several times what a sequence with drafts or an audit step needs. */
const maxRecordings = 96;

export interface RecordedRun {
  recording: Recording | undefined;
}

/**
 * Recorded runs of all programs of a runtime. A recording takes a megabyte or more of device memory, and growing
 * sequences need new ones all the time, so the least recently replayed is dropped.
 */
export class RecordingShelf {
  /** The least recently used first. */
  private readonly runs = new Set<RecordedRun>();

  constructor(private readonly most = maxRecordings) {}

  get size(): number {
    return this.runs.size;
  }

  use(run: RecordedRun): void {
    this.runs.delete(run);
    this.runs.add(run);
    if (this.runs.size <= this.most) return;
    const [oldest] = this.runs;
    this.drop(oldest!);
  }

  drop(run: RecordedRun): void {
    this.runs.delete(run);
    run.recording?.free();
    run.recording = undefined;
  }

  clear(): void {
    for (const run of this.runs) this.drop(run);
  }
}
