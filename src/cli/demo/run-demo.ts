import { openTarget } from '../../decode/target.js';
import { bundledTarget } from '../../decode/bundled-models.js';
import { settleDevice } from '../../decode/gpu-fit.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import { chooseDevice } from '../../runtime/device-choice.js';
import { cacheOf } from '../common-flags.js';
import type { DemoFlags } from './demo-stage.js';
import { showAudit } from './demo-audit.js';
import { showSpeculation } from './demo-speculation.js';
import type { Act } from './demo-stage.js';
import { createStage } from './demo-stage.js';
import { exitCodes } from '../failure.js';
import { createNotice } from '../terminal.js';
import type { Terminal } from '../terminal.js';

/** The parts of the demo, in order; each prints its own heading. */
const acts: readonly Act[] = [showSpeculation, showAudit];

export async function runDemo(flags: DemoFlags, terminal: Terminal): Promise<number> {
  const abort = new AbortController();
  const signal = AbortSignal.any([abort.signal, terminal.closed]);
  const onNotice = createNotice(terminal);
  const device = await settleDevice(await chooseDevice(flags), [bundledTarget], onNotice);
  const runtime = await openRuntime(device, flags.threads);
  try {
    const loading = { onNotice, ...cacheOf(flags) };
    const target = await openTarget(bundledTarget, { runtime, ...loading });
    // From here on Ctrl-C ends the demo at the next token; while loading, it kills the process.
    const stopListening = terminal.onInterrupt(() => {
      abort.abort();
    });
    try {
      const stage = createStage({ terminal, target, flags, signal });
      for (const [index, act] of acts.entries()) {
        const isWanted = flags.act === undefined || Number(flags.act) === index + 1;
        if (isWanted && !stage.isOver()) await act(stage, index + 1);
      }
    } finally {
      stopListening();
    }
  } finally {
    await runtime.dispose();
  }
  return abort.signal.aborted ? exitCodes.interrupted : exitCodes.success;
}
