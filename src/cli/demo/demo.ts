/** `mistletoe demo`. */
import { oneOf, text } from '../../core/settings.js';
import { bundledTarget } from '../../decode/bundled-models.js';
import { settleDevice } from '../../decode/gpu-fit.js';
import { openTarget } from '../../decode/target.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import { chooseDevice } from '../../runtime/device-choice.js';
import { defineCommand } from '../command.js';
import { cacheOf, machineFlags } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { flag } from '../flags.js';
import type { Terminal } from '../terminal.js';
import { createNotice } from '../terminal.js';
import { showAudit } from './demo-audit.js';
import { showSpeculation } from './demo-speculation.js';
import type { Act, DemoFlags } from './demo-stage.js';
import { createStage } from './demo-stage.js';

const flags = {
  act: flag('run only one part: 1 is decoding, 2 the audit', oneOf(['1', '2']), 'number'),
  out: flag('run folder of the audit', text, 'dir', { shownDefault: 'a new one in runs/' }),
  ...machineFlags,
};

export const demo = defineCommand({
  name: 'demo',
  description:
    'Answers a prompt with the bundled model, by plain decoding and with the bundled draft model, and compares both. Then audits that drafter on a few code and math prompts, and writes a report.',
  flags,
  examples: [
    ['mistletoe demo', ''],
    ['mistletoe demo --act 1', 'decoding only, a few seconds'],
  ],
  notes:
    'It takes about two minutes on two cores, reads only what comes with the package, and writes the weight cache and the audit’s run folder in runs/.',
  run: (flags, { terminal }) => runDemo(flags, terminal),
});

/** The parts of the demo, in order; each prints its own heading. */
const acts: readonly Act[] = [showSpeculation, showAudit];

async function runDemo(flags: DemoFlags, terminal: Terminal): Promise<number> {
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
        if (isWanted && !signal.aborted) await act(stage, index + 1);
      }
    } finally {
      stopListening();
    }
  } finally {
    await runtime.dispose();
  }
  return abort.signal.aborted ? exitCodes.interrupted : exitCodes.success;
}
