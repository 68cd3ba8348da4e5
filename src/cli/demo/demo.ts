/** `mistletoe demo`: its flags and help. */
import { oneOf, text } from '../../core/settings.js';
import { defineCommand } from '../command.js';
import { machineFlags } from '../common-flags.js';
import { flag } from '../flags.js';

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
  async run(flags, { terminal }) {
    const { runDemo } = await import('./run-demo.js');
    return runDemo(flags, terminal);
  },
});
