/** `mistletoe guard replay` and `mistletoe guard rehearse`. Models are loaded only when a rehearsal runs. */
import { decimal } from '../../core/settings.js';
import { describeReplay, replayFile } from '../../guard/records/replay.js';
import { defineCommand } from '../command.js';
import { formatFlag } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { flag } from '../flags.js';
import { falseAlertsFlag, rehearseFlags } from './rehearse-flags.js';

/** Judging, in `guard` and `replay` alike. */
export const judgeFlags = {
  ...falseAlertsFlag,
  breakEven: flag('tokens per step from which drafting pays', decimal({ above: 1, max: 100 }), 'tokens', {
    shownDefault: 'estimated from the draft length',
  }),
};

export const replay = defineCommand({
  name: 'replay',
  summary: 'judge recorded requests again',
  description:
    'Judges recorded requests again in their order, starting without a baseline, and prints the alerts. Use other false-alert rates to see what they would have meant.',
  arguments: [['<file>', 'a file of records, or a guard’s folder']],
  flags: {
    ...judgeFlags,
    falseAlertsPerWeek: flag(
      'false alerts about tenants per week',
      decimal({ above: 0, max: 1e6 }),
      'number',
      { shownDefault: '1' },
    ),
    ...formatFlag,
  },
  examples: [['mistletoe guard replay ./guard --false-alerts 0.001', 'judge with another rate']],
  async run({ format, ...options }, { args, terminal: { stdout } }) {
    const replayed = await replayFile(args[0]!, options);
    if (format === 'json') stdout.writeData(`${JSON.stringify(replayed, undefined, 2)}\n`);
    else stdout.write(`${describeReplay(replayed).join('\n')}\n`);
    return exitCodes.success;
  },
});

export const rehearse = defineCommand({
  name: 'rehearse',
  summary: 'measure what a collapse costs, without an attack, and check that the guard notices',
  description:
    'Makes drafts fail on purpose, stage by stage, and shows what that costs, where drafting stops paying, and what the guard says. Draft tokens are replaced, so answers stay the same.',
  flags: rehearseFlags,
  examples: [
    ['mistletoe guard rehearse', 'the bundled model with eagle3'],
    ['mistletoe guard rehearse -t ./my-model -d ./my-eagle3', 'a model of your own'],
  ],
  notes: 'Exit code 0 if the guard noticed the collapse, 3 if it did not.',
  run: async (given, { terminal }) => (await import('./rehearse.js')).runRehearse(given, terminal),
});
