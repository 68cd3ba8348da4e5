/** `mistletoe audit`: its help, and what it runs. */
import { applyPreset } from '../../audit/settings.js';
import { MistletoeError } from '../../core/errors.js';
import { defineCommand } from '../command.js';
import { targetFlag } from '../common-flags.js';
import { auditFlags, givenSettings } from './audit-flags.js';

export const audit = defineCommand({
  name: 'audit',
  description:
    'Searches, with the weights of target and drafter, for suffixes that make drafts fail while the answer stays the same. Measures them against controls of equal effort, and writes a report.',
  flags: auditFlags,
  examples: [
    ['mistletoe audit --drafter sps --preset quick', 'the bundled draft model, small prompt set'],
    ['mistletoe audit -d sps -d eagle3 --transfer', 'two drafters, and what transfers'],
    ['mistletoe audit -d ngram --search random', 'prompt lookup, which has no gradient'],
    [
      'mistletoe audit --target ./my-model --drafter ./my-eagle3 -p my.jsonl --limit 8 --fail-if-drop 0.3',
      '',
    ],
    ['mistletoe audit --suffix runs/target-eagle3-0-1/suffixes.jsonl', 'measure suffixes of an earlier run'],
    ['mistletoe audit --config audit.yaml --show-config', 'settings from a file'],
    ['mistletoe audit --resume runs/target-eagle3-0-1', 'continue after Ctrl-C or a crash'],
  ],
  notes:
    'It audits models whose weights you have, on your machine. The run folder has report.html, report.md, junit.xml, result.json and suffixes.jsonl; mistletoe compare compares two runs.\n\nExit codes: 0 passed, 1 failure, 2 invalid input, 3 nothing audited, 100 a gate failed, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
  complete: (flags) => ({
    ...flags,
    ...applyPreset(flags.preset, givenSettings(flags)),
    chat: undefined,
    target: undefined,
    ...(flags.target === targetFlag.target.default ? {} : { target: flags.target }),
  }),
  async run(flags, invocation) {
    const { runAudit, runVerify } = await import('./run-audit.js');
    const { terminal, allowOnly } = invocation;
    if (flags.verify === undefined) return runAudit(flags, invocation);
    allowOnly(
      ['verify', 'format'],
      (name) =>
        new MistletoeError('usage', `${name} has no effect on --verify, which runs nothing.`, {
          hint: 'Leave it out; only --format may be given.',
        }),
    );
    return runVerify(flags.verify, flags.format, terminal.stdout);
  },
});
