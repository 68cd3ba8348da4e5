/**
 * Recorded runs of all programs of a runtime. A recording takes a megabyte or more of the device's memory, and sequences
 * that grow ask for new ones all the time: the one that was replayed longest ago goes when there are too many, and is made
 * again should its run come again.
 */
import type { Recording } from '../driver/device.js';

/** What one sequence and its drafts need at a time, or the passes of an audit's step, several times over. */
const usualMost = 96;

/** Whoever may have a recording. */
export interface RecordedRun {
  recording: Recording | undefined;
}

export class RecordingShelf {
  /** The one that was used longest ago first. */
  private readonly runs = new Set<RecordedRun>();

  constructor(private readonly most = usualMost) {}

  get size(): number {
    return this.runs.size;
  }

  /** A recording that was made, or is about to be replayed. */
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
}
